//! Bitbucket Data Center: an older API for listing builds, comments among activities, versions that edits must name.

use super::bitbucket_cloud::{row, status};
use super::state::{FakeComment, FakePullRequest, PullRequestOrigin};
use super::{CANARY, FakeForgeState, ForgeReply, RecordedRequest};
use serde_json::{Value, json};

pub fn answer(state: &mut FakeForgeState, seen: &RecordedRequest) -> Result<ForgeReply, ForgeReply> {
    let path: Vec<&str> = seen.path.iter().map(String::as_str).collect();
    if seen.header("authorization") != format!("Bearer {CANARY}") {
        return Err(error(401, "Authentication failed. Please check your credentials and try again."));
    }
    if seen.method != "GET" && seen.header("x-atlassian-token") != "no-check" {
        return Err(error(403, "XSRF check failed"));
    }
    let (account, named) = (state.account.clone(), state.account.clone());
    let paged = |all: Vec<Value>| {
        let (start, limit) = (seen.number("start", 0), seen.number("limit", 25));
        let values: Vec<Value> = all.iter().skip(start).take(limit).cloned().collect();
        let last = start + limit >= all.len();
        let next = if last { Value::Null } else { json!(start + limit) };
        let page =
            json!({"values": values, "size": values.len(), "start": start, "isLastPage": last, "nextPageStart": next});
        ForgeReply::json(200, &page).with("x-ausername", &account)
    };
    if let ["build-status", "latest", "commits", commit] = path.as_slice() {
        return Ok(paged(state.newest(commit).iter().map(status).collect()));
    }
    let ["api", "latest", "projects", "TEAM", "repos", "models", rest @ ..] = path.as_slice() else {
        return Err(missing());
    };
    match (seen.method.as_str(), rest) {
        ("POST", ["commits", commit, "builds"]) => {
            seen.only(&["key", "state", "name", "description", "url"])?;
            if seen.text("key").len() > 255 || !seen.text("url").starts_with("http") {
                return Err(error(400, "A key and a URL are required"));
            }
            if !state.commits.iter().any(|known| known == commit) {
                return Err(missing());
            }
            state.upsert(row(commit, seen));
            Ok(ForgeReply::empty(204))
        }
        ("GET", ["pull-requests"]) => {
            let onto = seen.query.get("at").cloned().unwrap_or_default();
            let open =
                state.pulls.iter().filter(|pull| pull.state == "open" && format!("refs/heads/{}", pull.base) == onto);
            Ok(paged(open.map(pull).collect()))
        }
        ("GET", ["pull-requests", number]) => Ok(ForgeReply::json(200, &pull(state.pull(number).ok_or_else(missing)?))),
        ("POST", ["pull-requests"]) => {
            seen.only(&["title", "description", "fromRef", "toRef"])?;
            let body = seen.body.clone().unwrap();
            let name = |side: &str| body[side]["id"].as_str().unwrap().strip_prefix("refs/heads/").unwrap().to_owned();
            if state.pulls.iter().any(|pull| pull.state == "open" && pull.branch == name("fromRef")) {
                return Err(error(409, "Only one pull request may be open for a given source and target branch"));
            }
            let number = state.id();
            state.open(number, &seen.text("title"), PullRequestOrigin::Here);
            let opened = state.pulls.last_mut().unwrap();
            opened.branch = name("fromRef");
            opened.base = name("toRef");
            Ok(ForgeReply::json(201, &pull(opened)))
        }
        ("GET", ["pull-requests", number, "activities"]) => {
            // Newest first, and what is no comment among them.
            let of = state.notes.iter().rev().filter(|note| note.pull.to_string() == *number);
            let mut all: Vec<Value> =
                of.map(|note| json!({"id": note.id, "action": "COMMENTED", "comment": comment(note)})).collect();
            all.push(json!({"id": 1, "action": "OPENED"}));
            Ok(paged(all))
        }
        ("POST", ["pull-requests", number, "comments"]) => {
            seen.only(&["text"])?;
            let number = state.pull(number).ok_or_else(missing)?.number;
            state.said(number, &named, &seen.text("text"));
            Ok(ForgeReply::json(201, &comment(state.notes.last().unwrap())))
        }
        ("PUT", ["pull-requests", _, "comments", id]) => {
            seen.only(&["text", "version"])?;
            let note = state.notes.iter_mut().find(|note| note.id.to_string() == *id).ok_or_else(missing)?;
            if seen.body.as_ref().unwrap()["version"] != note.version {
                return Err(error(409, "You are attempting to modify a comment based on out-of-date information."));
            }
            note.version += 1;
            note.body = seen.text("text");
            Ok(ForgeReply::json(200, &comment(note)))
        }
        _ => Err(missing()),
    }
}

fn error(status: u16, message: &str) -> ForgeReply {
    ForgeReply::json(status, &json!({"errors": [{"context": null, "message": message, "exceptionName": null}]}))
}

fn missing() -> ForgeReply {
    error(404, "Repository TEAM/models does not exist.")
}

fn pull(pull: &FakePullRequest) -> Value {
    // A fork is another project's here, and there is no pull request from one that is gone.
    let project = if pull.from == PullRequestOrigin::Here { "TEAM" } else { "~ada" };
    json!({
        "id": pull.number,
        "version": 1,
        "title": pull.title,
        "state": match pull.state { "closed" => "DECLINED".to_owned(), other => other.to_uppercase() },
        "fromRef": {"id": format!("refs/heads/{}", pull.branch), "displayId": pull.branch, "latestCommit": pull.head, "repository": {"slug": "models", "project": {"key": project}}},
        "toRef": {"id": format!("refs/heads/{}", pull.base), "displayId": pull.base, "latestCommit": super::sha(1), "repository": {"slug": "models", "project": {"key": "TEAM"}}},
        "links": {"self": [{"href": format!("https://bitbucket.example.com/projects/TEAM/repos/models/pull-requests/{}", pull.number)}]},
    })
}

fn comment(note: &FakeComment) -> Value {
    json!({"id": note.id, "version": note.version, "text": note.body, "author": {"name": note.author, "slug": note.author.to_lowercase()}})
}
