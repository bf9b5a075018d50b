//! The action's comment on a pull request of the real Gitea, whose API is GitHub's here.

use super::action::{ActionResult, ActionRun};
use super::checkout;
use crate::gitea::{self, Gitea, Repository};
use crate::testbed;
use crate::workbench::Workbench;

/// The action as Gitea's runner runs it for a pull request.
fn run(gitea: &Gitea, repository: &Repository<'_>, bench: &Workbench, number: u64, token: &str) -> ActionResult {
    let text = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    let variables = vec![
        text("GITHUB_API_URL", &format!("{}/api/v1", gitea.url())),
        text("GITHUB_REPOSITORY", &repository.path()),
        text("GITHUB_REF", &format!("refs/pull/{number}/head")),
        text("GITHUB_BASE_REF", "main"),
        text("CURL_CA_BUNDLE", gitea.certificate().to_str().unwrap()),
    ];
    ActionRun { bench, inputs: &[("environment", "staging")], variables, token }.run()
}

#[test]
fn a_plan_is_one_comment_that_follows_the_pull_request() {
    if let Some(tool) = ["curl", "jq"].into_iter().find(|tool| !testbed::is_there(tool, "--version")) {
        return testbed::skipped(&format!("there is no {tool}, which the action uses"));
    }
    let Some(gitea) = gitea::shared() else { return };
    let repository = gitea.repository("action");
    let bench = checkout("");
    let base = bench.commit("The example");
    repository.push(&bench.root(), "main");
    bench.switch("change");
    bench.replace("chat/llama-3-70b/model.yaml", "replicas: 2", "replicas: 3");
    bench.commit("More");
    repository.push(&bench.root(), "change");
    let number = repository.open_pull_request("change", "main", "More");
    // What a checkout with its whole history has.
    let git = git2::Repository::open(bench.root()).unwrap();
    git.reference("refs/remotes/origin/main", git2::Oid::from_str(&base).unwrap(), true, "").unwrap();

    let result = run(gitea, &repository, &bench, number, gitea.bot_token());
    assert_eq!(result.steps["Comment"], "The plan is a comment of the pull request.\n? 0");
    let first = repository.comments(number);
    assert_eq!(first.len(), 1, "{first:?}");
    assert!(first[0].body.contains("replicas: 2 → 3"), "{}", first[0].body);
    assert_eq!(first[0].body.trim(), result.summary.trim(), "the summary is the same");

    bench.replace("chat/llama-3-70b/model.yaml", "replicas: 3", "replicas: 4");
    bench.commit("Even more");
    let result = run(gitea, &repository, &bench, number, gitea.bot_token());
    assert_eq!(result.steps["Comment"], "The plan is a comment of the pull request.\n? 0");
    let second = repository.comments(number);
    assert_eq!(second.iter().map(|one| one.id).collect::<Vec<_>>(), [first[0].id], "it was edited");
    assert!(second[0].body.contains("replicas: 2 → 4"), "{}", second[0].body);

    // The token of a fork's pull request may not write.
    let result = run(gitea, &repository, &bench, number, "nobody");
    assert!(
        result.steps["Comment"].starts_with("::warning title=stator::the token may not comment"),
        "{}",
        result.steps["Comment"]
    );
    assert!(result.steps["Comment"].ends_with("? 0"), "{}", result.steps["Comment"]);
    assert_eq!(repository.comments(number).len(), 1);
}
