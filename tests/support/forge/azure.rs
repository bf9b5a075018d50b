//! Azure DevOps: a genre beside every name, threads in the place of comments, statuses of pull requests beside those of
//! commits.

use super::state::{FakeComment, FakePullRequest, PostedStatusRow, PullRequestOrigin};
use super::{CANARY, FakeForgeState, ForgeReply, RecordedRequest};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

pub fn answer(state: &mut FakeForgeState, seen: &RecordedRequest) -> Result<ForgeReply, ForgeReply> {
    let path: Vec<&str> = seen.path.iter().map(String::as_str).collect();
    if seen.header("authorization") != format!("Basic {}", STANDARD.encode(format!(":{CANARY}"))) {
        // Whoever is not known is shown a page, and that is no error.
        return Err(ForgeReply::page(203, "<!DOCTYPE html><title>Azure DevOps Services | Sign In</title>"));
    }
    if path == ["_apis", "connectionData"] {
        return Ok(ForgeReply::json(200, &json!({"authenticatedUser": {"id": id(&state.account)}})));
    }
    let ["team", "_apis", "git", "repositories", "models", rest @ ..] = path.as_slice() else { return Err(missing()) };
    if seen.query.get("api-version").map(String::as_str) != Some("7.1") {
        return Err(ForgeReply::message(400, "No api-version was supplied for the request."));
    }
    match (seen.method.as_str(), rest) {
        ("POST", ["commits", commit, "statuses"]) => {
            if !state.commits.iter().any(|known| known == commit) {
                return Err(missing());
            }
            let row = row(commit, seen, String::new())?;
            state.statuses.push(row.clone());
            Ok(ForgeReply::json(200, &status(&row)))
        }
        ("POST", ["pullRequests", number, "statuses"]) => {
            let head = state.pull(number).ok_or_else(missing)?.head.clone();
            let row = row(&head, seen, (*number).to_owned())?;
            state.statuses.push(row.clone());
            Ok(ForgeReply::json(200, &status(&row)))
        }
        ("GET", ["commits", commit, "statuses"]) => {
            assert_eq!(seen.query.get("latestOnly").map(String::as_str), Some("true"));
            let all = state.newest(commit);
            let some = all.iter().skip(seen.number("skip", 0)).take(seen.number("top", 100));
            let value: Vec<Value> = some.map(status).collect();
            Ok(ForgeReply::json(200, &json!({"count": value.len(), "value": value})))
        }
        ("GET", ["pullrequests"]) => {
            let onto = seen.query.get("searchCriteria.targetRefName").cloned().unwrap_or_default();
            let open =
                state.pulls.iter().filter(|pull| pull.state == "open" && format!("refs/heads/{}", pull.base) == onto);
            let some = open.skip(seen.number("$skip", 0)).take(seen.number("$top", 101));
            let value: Vec<Value> = some.map(pull).collect();
            Ok(ForgeReply::json(200, &json!({"count": value.len(), "value": value})))
        }
        ("GET", ["pullrequests", number]) => Ok(ForgeReply::json(200, &pull(state.pull(number).ok_or_else(missing)?))),
        ("POST", ["pullrequests"]) => {
            seen.only(&["title", "description", "sourceRefName", "targetRefName"])?;
            let name = |field: &str| seen.text(field).strip_prefix("refs/heads/").unwrap().to_owned();
            if state.pulls.iter().any(|pull| pull.state == "open" && pull.branch == name("sourceRefName")) {
                return Err(ForgeReply::message(
                    409,
                    "TF401179: An active pull request for the source and target branch already exists.",
                ));
            }
            let number = state.id();
            state.open(number, &seen.text("title"), PullRequestOrigin::Here);
            let opened = state.pulls.last_mut().unwrap();
            opened.branch = name("sourceRefName");
            opened.base = name("targetRefName");
            Ok(ForgeReply::json(201, &pull(opened)))
        }
        ("GET", ["pullRequests", number, "threads"]) => {
            let of = state.notes.iter().filter(|note| note.pull.to_string() == *number);
            let value: Vec<Value> = of.map(thread).collect();
            Ok(ForgeReply::json(200, &json!({"count": value.len(), "value": value})))
        }
        ("POST", ["pullRequests", number, "threads"]) => {
            seen.only(&["comments", "status"])?;
            // An open thread would keep the pull request from being completed.
            assert_eq!(seen.text("status"), "closed");
            let number = state.pull(number).ok_or_else(missing)?.number;
            let author = state.account.clone();
            let body = seen.body.as_ref().unwrap()["comments"][0]["content"].as_str().unwrap().to_owned();
            state.said(number, &author, &body);
            Ok(ForgeReply::json(200, &thread(state.notes.last().unwrap())))
        }
        ("PATCH", ["pullRequests", _, "threads", thread, "comments", "1"]) => {
            seen.only(&["content"])?;
            let note = state.notes.iter_mut().find(|note| note.id.to_string() == *thread).ok_or_else(missing)?;
            note.body = seen.text("content");
            Ok(ForgeReply::json(200, &comment(note)))
        }
        _ => Err(missing()),
    }
}

fn missing() -> ForgeReply {
    ForgeReply::message(
        404,
        "TF401019: The Git repository with name or identifier models does not exist or you do not have permissions.",
    )
}

fn row(commit: &str, seen: &RecordedRequest, on: String) -> Result<PostedStatusRow, ForgeReply> {
    seen.only(&["state", "description", "targetUrl", "context"])?;
    let context = &seen.body.as_ref().unwrap()["context"];
    let name = context["name"].as_str().ok_or_else(|| ForgeReply::message(400, "context.name is required"))?;
    let state = seen.text("state");
    if !["pending", "succeeded", "failed", "error", "notApplicable"].contains(&state.as_str()) {
        return Err(ForgeReply::message(400, "state is not documented"));
    }
    Ok(PostedStatusRow {
        commit: commit.to_owned(),
        key: String::new(),
        context: format!("{}/{name}", context["genre"].as_str().unwrap_or_default()),
        state,
        description: seen.text("description"),
        url: seen.text("targetUrl"),
        on,
    })
}

fn status(row: &PostedStatusRow) -> Value {
    let (genre, name) = row.context.split_once('/').unwrap();
    json!({"state": row.state, "description": row.description, "targetUrl": row.url, "context": {"genre": genre, "name": name}})
}

fn pull(pull: &FakePullRequest) -> Value {
    let mut shown = json!({
        "pullRequestId": pull.number,
        "title": pull.title,
        "status": match pull.state { "open" => "active", "merged" => "completed", _ => "abandoned" },
        "sourceRefName": format!("refs/heads/{}", pull.branch),
        "targetRefName": format!("refs/heads/{}", pull.base),
        "lastMergeSourceCommit": {"commitId": pull.head},
    });
    if pull.from != PullRequestOrigin::Here {
        shown["forkSource"] = json!({"repository": {"id": "2"}});
    }
    shown
}

/// An account, as Azure names them.
fn id(account: &str) -> String {
    format!("00000000-0000-0000-0000-{}", account.to_uppercase())
}

fn thread(note: &FakeComment) -> Value {
    json!({"id": note.id, "comments": [comment(note)], "status": "closed", "isDeleted": false})
}

fn comment(note: &FakeComment) -> Value {
    let kind = if note.system { "system" } else { "text" };
    json!({"id": 1, "content": note.body, "commentType": kind, "author": {"id": id(&note.author).to_lowercase()}})
}
