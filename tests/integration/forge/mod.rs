//! What stator tells git hosts, against a fake of each make: see `tests/support/forge`.

mod answers;
mod apps;
mod gitlab;
mod secrets;

use crate::forge_fake::{ALL, FakeForgeHost, ForgeFlavor, PullRequestOrigin, sha};
use insta::assert_snapshot;
use stator_git::forge::{CommitStatus, ForgeApi as _, ForgeError, NewPullRequest, PullRequestState, StatusState};

fn status(context: &str, state: StatusState, description: &str) -> CommitStatus {
    CommitStatus {
        context: context.to_owned(),
        state,
        description: description.to_owned(),
        target_url: Some("https://stator.example.com/models".to_owned()),
    }
}

#[tokio::test]
async fn every_host_has_its_own_words_for_a_verdict() {
    let mut table = Vec::new();
    for make in ALL {
        let fake = FakeForgeHost::start(make).await;
        let client = fake.client();
        let states = [StatusState::Pending, StatusState::Success, StatusState::Failure, StatusState::Error];
        for state in states {
            let wanted = status(&format!("stator/{state:?}"), state, "14 models healthy");
            client.set_status(&sha(1), &wanted).await.unwrap();
        }
        let words: Vec<String> = fake.state().statuses.iter().map(|row| row.state.clone()).collect();
        table.push(format!("{}: {}", client.describe(), words.join(", ")));
        fake.assert_no_faults();
    }
    assert_snapshot!(table.join("\n"), @"
    GitHub, team/models: pending, success, failure, error
    GitLab, team/sub/models: running, success, failed, failed
    Gitea, team/models: pending, success, failure, error
    Bitbucket, team/models: INPROGRESS, SUCCESSFUL, FAILED, FAILED
    Bitbucket, TEAM/models: INPROGRESS, SUCCESSFUL, FAILED, FAILED
    Azure DevOps, team/models: pending, succeeded, failed, error
    ");
}

#[tokio::test]
async fn what_a_host_shows_is_what_was_said_to_be_shown() {
    for make in ALL {
        let fake = FakeForgeHost::start(make).await;
        let client = fake.client();
        let wanted = [
            status("stator/prod", StatusState::Pending, "rendering"),
            status("stator/prod/Llama", StatusState::Error, " the cluster cannot be reached\n"),
            CommitStatus { target_url: None, ..status("stator/preview/prod", StatusState::Success, "no changes") },
            status("stator/prod", StatusState::Success, "14 models healthy"),
        ];
        for one in &wanted {
            client.set_status(&sha(1), one).await.unwrap();
        }
        client.set_status(&sha(1), &status("other/check", StatusState::Success, "fine")).await.unwrap();
        client.set_status(&sha(2), &status("stator/prod", StatusState::Failure, "elsewhere")).await.unwrap();
        let mut expected: Vec<CommitStatus> =
            wanted[1..].iter().map(|one| client.normalize_status(&sha(1), one)).collect();
        expected.sort();
        assert_eq!(client.list_statuses(&sha(1), "Stator/").await.unwrap(), expected, "{make:?}");
        assert_eq!(client.list_statuses(&sha(3), "stator/").await.unwrap(), [], "{make:?}");
        fake.assert_no_faults();
    }
}

#[tokio::test]
async fn what_is_too_long_is_cut_before_it_is_sent() {
    for make in ALL {
        let fake = FakeForgeHost::start(make).await;
        let client = fake.client();
        let long = "модель 🦙 ".repeat(60);
        for end in ["a", "b"] {
            let wanted = CommitStatus {
                target_url: Some(format!("https://stator.example.com/{}", "x".repeat(400))),
                ..status(&format!("stator/prod/{}{end}", "m".repeat(500)), StatusState::Failure, &long)
            };
            client.set_status(&sha(1), &wanted).await.unwrap();
        }
        let shown = client.list_statuses(&sha(1), "stator/prod/").await.unwrap();
        assert_eq!(shown.len(), 2, "{make:?}: two long contexts became one");
        for one in &shown {
            assert!(one.description.ends_with('…'), "{make:?}: {}", one.description);
            assert!(one.description.chars().count() <= client.limits().description, "{make:?}");
        }
        fake.assert_no_faults();
    }
}

#[tokio::test]
async fn a_thousand_open_pull_requests_are_all_read() {
    for make in ALL {
        let fake = FakeForgeHost::start(make).await;
        for number in 1..=1000 {
            fake.state().open(number, "A change", PullRequestOrigin::Here);
        }
        fake.state().pulls.iter_mut().find(|pull| pull.number == 500).unwrap().base = "other".to_owned();
        fake.state().pulls.iter_mut().find(|pull| pull.number == 501).unwrap().state = "merged";
        fake.state().commits.push(sha(0));
        let open = fake.client().list_open_pull_requests("main").await.unwrap();
        let numbers: Vec<u64> = open.iter().map(|pull| pull.number).collect();
        let expected: Vec<u64> = (1..=1000).filter(|number| ![500, 501].contains(number)).collect();
        assert_eq!(numbers, expected, "{make:?}");
        assert!(open.iter().all(|pull| pull.head.len() == 40), "{make:?}: a head is truncated");
        fake.assert_no_faults();
    }
}

#[tokio::test]
async fn a_list_that_goes_on_is_not_read_for_ever() {
    let fake = FakeForgeHost::start(ForgeFlavor::Gitlab).await;
    for number in 1..=10_100 {
        fake.state().open(number, "A change", PullRequestOrigin::Here);
    }
    let refused = fake.client().list_open_pull_requests("main").await.unwrap_err();
    let message = refused.to_string();
    assert!(message.contains("more than 10000 open merge requests, which is the limit"), "{message}");
}

#[tokio::test]
async fn what_comes_from_elsewhere_is_told_from_what_is_the_repositorys_own() {
    let mut table = Vec::new();
    for make in ALL {
        let fake = FakeForgeHost::start(make).await;
        let client = fake.client();
        fake.state().open(1, "Ours", PullRequestOrigin::Here);
        fake.state().open(2, "A fork's", PullRequestOrigin::Fork);
        fake.state().open(3, "A fork's that is gone", PullRequestOrigin::GoneFork);
        for pull in client.list_open_pull_requests("main").await.unwrap() {
            assert_eq!(client.pull_request(pull.number).await.unwrap(), pull);
            let way = pull.fetch.or(pull.branch.clone()).unwrap_or_else(|| "no way".to_owned());
            let page = pull.url.replace(&fake.root(), "HOST");
            table.push(format!("{make:?} {}: fork {}, by {way}, {page}", pull.number, pull.fork));
        }
        fake.state().pulls[0].state = "merged";
        fake.state().pulls[1].state = "closed";
        let states = [PullRequestState::Merged, PullRequestState::Closed, PullRequestState::Open];
        for (number, state) in (1..).zip(states) {
            assert_eq!(client.pull_request(number).await.unwrap().state, state, "{make:?} {number}");
        }
        fake.assert_no_faults();
    }
    assert_snapshot!(table.join("\n"), @"
    Github 1: fork false, by refs/pull/1/head, https://github.com/team/models/pull/1
    Github 2: fork true, by refs/pull/2/head, https://github.com/team/models/pull/2
    Github 3: fork true, by refs/pull/3/head, https://github.com/team/models/pull/3
    Gitlab 1: fork false, by refs/merge-requests/1/head, https://gitlab.com/team/sub/models/-/merge_requests/1
    Gitlab 2: fork true, by refs/merge-requests/2/head, https://gitlab.com/team/sub/models/-/merge_requests/2
    Gitlab 3: fork true, by refs/merge-requests/3/head, https://gitlab.com/team/sub/models/-/merge_requests/3
    Gitea 1: fork false, by refs/pull/1/head, https://gitea.example.com/team/models/pulls/1
    Gitea 2: fork true, by refs/pull/2/head, https://gitea.example.com/team/models/pulls/2
    Gitea 3: fork true, by refs/pull/3/head, https://gitea.example.com/team/models/pulls/3
    BitbucketCloud 1: fork false, by change-1, https://bitbucket.org/team/models/pull-requests/1
    BitbucketCloud 2: fork true, by no way, https://bitbucket.org/team/models/pull-requests/2
    BitbucketCloud 3: fork true, by no way, https://bitbucket.org/team/models/pull-requests/3
    BitbucketDataCenter 1: fork false, by refs/pull-requests/1/from, https://bitbucket.example.com/projects/TEAM/repos/models/pull-requests/1
    BitbucketDataCenter 2: fork true, by refs/pull-requests/2/from, https://bitbucket.example.com/projects/TEAM/repos/models/pull-requests/2
    BitbucketDataCenter 3: fork true, by refs/pull-requests/3/from, https://bitbucket.example.com/projects/TEAM/repos/models/pull-requests/3
    Azure 1: fork false, by change-1, HOST/org/team/_git/models/pullrequest/1
    Azure 2: fork true, by no way, HOST/org/team/_git/models/pullrequest/2
    Azure 3: fork true, by no way, HOST/org/team/_git/models/pullrequest/3
    ");
}

#[tokio::test]
async fn a_comment_is_found_among_others_and_edited_in_place() {
    for make in ALL {
        let fake = FakeForgeHost::start(make).await;
        let client = fake.client();
        fake.state().open(7, "Bigger", PullRequestOrigin::Here);
        for number in 0..130 {
            // Anybody can write a marker.
            fake.state().said(7, "mallory", &format!("<!-- stator --> {number}"));
        }
        let first = client.create_comment(7, "<!-- stator --> one").await.unwrap();
        let second = client.create_comment(7, "two").await.unwrap();
        // Hosts write an account's name as they please.
        for note in fake.state().notes.iter_mut().filter(|note| note.author == "Stator-Bot") {
            note.author = "sTATOR-bot".to_owned();
        }
        fake.state().said(8, "stator-bot", "on another pull request");
        assert_eq!(client.list_own_comments(7).await.unwrap(), [first.clone(), second.clone()], "{make:?}");

        let edited = client.update_comment(7, &first, "<!-- stator --> three").await.unwrap();
        let again = client.update_comment(7, &edited, "<!-- stator --> three").await.unwrap();
        assert_eq!(again.body, "<!-- stator --> three", "{make:?}");
        let bodies: Vec<String> =
            client.list_own_comments(7).await.unwrap().into_iter().map(|comment| comment.body).collect();
        assert_eq!(bodies, ["<!-- stator --> three", "two"], "{make:?}");
        fake.assert_no_faults();
    }
}

#[tokio::test]
async fn an_edit_of_what_was_edited_meanwhile_is_a_conflict() {
    let fake = FakeForgeHost::start(ForgeFlavor::BitbucketDataCenter).await;
    let client = fake.client();
    fake.state().open(7, "Bigger", PullRequestOrigin::Here);
    let comment = client.create_comment(7, "one").await.unwrap();
    client.update_comment(7, &comment, "two").await.unwrap();
    let refused = client.update_comment(7, &comment, "three").await.unwrap_err();
    assert!(matches!(refused, ForgeError::Conflict { .. }), "{refused}");
}

#[tokio::test]
async fn a_pull_request_is_opened_and_not_twice() {
    for make in ALL {
        let fake = FakeForgeHost::start(make).await;
        let client = fake.client();
        let new = NewPullRequest {
            title: "Roll llama back".to_owned(),
            body: "As of 1111111.".to_owned(),
            base: "main".to_owned(),
            head: "rollback".to_owned(),
        };
        fake.state().commits.push(sha(0));
        let opened = client.create_pull_request(&new).await.unwrap();
        assert_eq!((opened.base.as_str(), opened.branch.as_deref()), ("main", Some("rollback")), "{make:?}");
        assert_eq!(client.pull_request(opened.number).await.unwrap(), opened, "{make:?}");
        // Bitbucket Cloud brings the one that is there up to date.
        if make != ForgeFlavor::BitbucketCloud {
            let refused = client.create_pull_request(&new).await.unwrap_err();
            assert!(matches!(refused, ForgeError::Conflict { .. }), "{make:?}: {refused}");
        }
        fake.assert_no_faults();
    }
}

#[tokio::test]
async fn a_commit_that_the_host_does_not_have_is_named() {
    for make in ALL {
        let fake = FakeForgeHost::start(make).await;
        let unknown = "abcdef0123456789abcdef0123456789abcdef01";
        let wanted = status("stator/prod", StatusState::Success, "fine");
        let refused = fake.client().set_status(unknown, &wanted).await.unwrap_err();
        let expected = "has no commit abcdef012345, or the token may not see it";
        assert!(refused.to_string().ends_with(expected), "{make:?}: {refused}");
    }
}

#[tokio::test]
async fn a_pull_requests_own_status_is_what_azures_policies_read() {
    let fake = FakeForgeHost::start(ForgeFlavor::Azure).await;
    let client = fake.client();
    fake.state().open(4, "Bigger", PullRequestOrigin::Here);
    let wanted = status("stator/preview/prod", StatusState::Success, "1 model changes");
    client.set_status(&sha(4), &wanted).await.unwrap();
    client.pull_request(4).await.unwrap();
    client.set_status(&sha(4), &wanted).await.unwrap();
    let on: Vec<String> = fake.state().statuses.iter().map(|row| format!("{} {}", row.context, row.on)).collect();
    assert_eq!(on, ["stator/preview/prod ", "stator/preview/prod ", "stator/preview/prod 4"]);
    fake.assert_no_faults();
}
