//! `stator rollback` at a real git host: a branch pushed, a pull request opened.

use crate::cli::MOCK;
use crate::gitea;
use crate::workbench::Workbench;
use std::path::Path;

fn source(bench: &Workbench, url: &str, token: &str, certificate: &Path) -> String {
    let certificate = fs_err::read_to_string(certificate).unwrap();
    let indented: String = certificate.lines().map(|line| format!("    {line}\n")).collect();
    let text = format!(
        "apiVersion: stator.dev/v1alpha1\nkind: ModelSource\nmetadata: {{name: models}}\nspec:\n  url: {url}\n  \
         ref: {{branch: main}}\n  interval: 1m\n  secretRef: {{name: git}}\n  forge: {{type: gitea, secretRef: {{name: forge}}}}\n\
         ---\napiVersion: v1\nkind: Secret\nmetadata: {{name: git}}\nstringData:\n  username: stator\n  password: {token}\n  caFile: |\n{indented}\
         ---\napiVersion: v1\nkind: Secret\nmetadata: {{name: forge}}\nstringData: {{token: {token}}}\n"
    );
    let path = bench.path("../source.yaml");
    fs_err::write(&path, text).unwrap();
    path.to_string_lossy().into_owned()
}

#[test]
fn a_rollback_is_pushed_and_proposed_once() {
    let Some(gitea) = gitea::shared() else { return };
    let repository = gitea.repository("rollback");
    let bench = Workbench::with(&[("models/mock/model.yaml", MOCK)]);
    let first = bench.commit("Serve mock");
    bench.replace("models/mock/model.yaml", "replicas: 2", "replicas: 4");
    // Whoever reads the pull request is not to be told by it.
    bench.commit("More of it, says @team in #1");
    bench.switch("main");
    repository.push(&bench.root(), "main");
    let git = git2::Repository::open(bench.root()).unwrap();
    git.config().unwrap().set_str("user.name", "Ada").unwrap();
    git.config().unwrap().set_str("user.email", "ada@example.com").unwrap();
    let file = source(&bench, &repository.url(), gitea.bot_token(), &gitea.certificate());
    git.remote("origin", &repository.url()).unwrap();

    let made = bench.run(["rollback", "mock", "--source-file", &file]).success();
    let branch = format!("rollback/mock-{}", &first[..7]);
    let local = git.find_branch(&branch, git2::BranchType::Local).unwrap().into_reference().peel_to_commit().unwrap();
    assert_eq!(repository.tip(&branch), local.id().to_string(), "{made}");
    let pulls = repository.call("GET", "/pulls?state=open", &serde_json::Value::Null);
    assert_eq!(pulls.as_array().unwrap().len(), 1, "{made}");
    assert_eq!(pulls[0]["title"], format!("Roll back mock to {}", &first[..7]));
    assert_eq!(pulls[0]["base"]["ref"], "main");
    assert!(made.stdout.contains(pulls[0]["html_url"].as_str().unwrap()), "{made}");
    let body = pulls[0]["body"].as_str().unwrap();
    assert!(!body.contains("@team") && !body.contains("in #1"), "{body}");

    // Again, it is all there.
    let again = bench.run(["rollback", "mock", "--source-file", &file]).success();
    assert!(again.stderr.contains("already contains this rollback"), "{again}");
    assert!(again.stderr.contains("A pull request for"), "{again}");
    assert!(!format!("{made}{again}").contains(gitea.bot_token()));

    // Another's branch of that name stays as it is.
    git.find_branch(&branch, git2::BranchType::Local).unwrap().delete().unwrap();
    bench.write("README.md", "Further.");
    bench.commit("Further");
    repository.push(&bench.root(), "main");
    let refused = bench.run(["rollback", "mock", "--source-file", &file]).exits(2);
    assert!(refused.stderr.contains(&format!("it has another branch `{branch}`")), "{refused}");
    assert_eq!(repository.tip(&branch), local.id().to_string());
}

#[test]
fn a_token_that_may_only_read_does_not_push() {
    let Some(gitea) = gitea::shared() else { return };
    let repository = gitea.repository("rollback-read");
    let bench = Workbench::with(&[("models/mock/model.yaml", MOCK)]);
    bench.commit("Serve mock");
    bench.replace("models/mock/model.yaml", "replicas: 2", "replicas: 4");
    bench.commit("More of it");
    bench.switch("main");
    repository.push(&bench.root(), "main");
    let git = git2::Repository::open(bench.root()).unwrap();
    git.config().unwrap().set_str("user.name", "Ada").unwrap();
    git.config().unwrap().set_str("user.email", "ada@example.com").unwrap();
    let token = gitea.token("team", &["read:repository", "read:user"]);
    let file = source(&bench, &repository.url(), &token, &gitea.certificate());
    let refused = bench.run(["rollback", "mock", "--source-file", &file]).exits(2);
    assert!(refused.stderr.contains("exists locally; run the command again"), "{refused}");
    assert!(!refused.stderr.contains(&token), "{refused}");
}
