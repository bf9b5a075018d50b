//! Gitea and Forgejo: pages of fifty, texts trimmed, contexts told apart by case, lists of comments without pages.

use super::state::{FakeComment, FakePullRequest, PostedStatusRow, PullRequestOrigin, page};
use super::{CANARY, FakeForgeState, ForgeReply, RecordedRequest};
use serde_json::{Value, json};

pub fn answer(state: &mut FakeForgeState, seen: &RecordedRequest) -> Result<ForgeReply, ForgeReply> {
    let path: Vec<&str> = seen.path.iter().map(String::as_str).collect();
    if seen.header("authorization") != format!("token {CANARY}") {
        return Err(ForgeReply::message(401, "invalid username, password or token"));
    }
    if path == ["user"] {
        return Ok(ForgeReply::json(200, &json!({"id": 2, "login": state.account})));
    }
    let ["repos", "team", "models", rest @ ..] = path.as_slice() else { return Err(missing()) };
    match (seen.method.as_str(), rest) {
        ("POST", ["statuses", commit]) => {
            if !state.commits.iter().any(|known| known == commit) {
                return Err(missing());
            }
            let row = PostedStatusRow {
                commit: (*commit).to_owned(),
                key: String::new(),
                context: seen.text("context").trim().to_owned(),
                state: seen.text("state"),
                description: seen.text("description").trim().to_owned(),
                url: seen.text("target_url").trim().to_owned(),
                on: String::new(),
            };
            state.statuses.push(row.clone());
            Ok(ForgeReply::json(201, &status(&row)))
        }
        ("GET", ["commits", commit, "status"]) => {
            let newest = state.newest(commit);
            let rows = page(&newest, seen.number("page", 1), seen.number("limit", 30).min(50));
            // An empty list is null, as Go has it.
            let statuses = if rows.is_empty() { Value::Null } else { rows.iter().map(status).collect() };
            Ok(ForgeReply::json(200, &json!({"sha": commit, "total_count": newest.len(), "statuses": statuses})))
        }
        ("GET", ["pulls"]) => {
            let base = seen.query.get("base").cloned().unwrap_or_default();
            let open: Vec<FakePullRequest> =
                state.pulls.iter().filter(|pull| pull.state == "open" && pull.base == base).cloned().collect();
            let some = page(&open, seen.number("page", 1), seen.number("limit", 30).min(50));
            Ok(ForgeReply::json(200, &some.iter().map(pull).collect()))
        }
        ("GET", ["pulls", number]) => Ok(ForgeReply::json(200, &pull(state.pull(number).ok_or_else(missing)?))),
        ("POST", ["pulls"]) => {
            if state.pulls.iter().any(|pull| pull.state == "open" && pull.branch == seen.text("head")) {
                return Err(ForgeReply::message(409, "pull request already exists for these targets"));
            }
            let number = state.id();
            state.open(number, &seen.text("title"), PullRequestOrigin::Here);
            let opened = state.pulls.last_mut().unwrap();
            opened.branch = seen.text("head");
            opened.base = seen.text("base");
            Ok(ForgeReply::json(201, &pull(opened)))
        }
        ("GET", ["issues", number, "comments"]) => {
            let of = state.notes.iter().filter(|note| note.pull.to_string() == *number);
            Ok(ForgeReply::json(200, &of.map(comment).collect()))
        }
        ("POST", ["issues", number, "comments"]) => {
            let number = state.pull(number).ok_or_else(missing)?.number;
            let author = state.account.clone();
            state.said(number, &author, &seen.text("body"));
            Ok(ForgeReply::json(201, &comment(state.notes.last().unwrap())))
        }
        ("PATCH", ["issues", "comments", id]) => {
            let note = state.notes.iter_mut().find(|note| note.id.to_string() == *id).ok_or_else(missing)?;
            if note.body == seen.text("body") {
                return Ok(ForgeReply::empty(204));
            }
            note.body = seen.text("body");
            Ok(ForgeReply::json(200, &comment(note)))
        }
        _ => Err(missing()),
    }
}

fn missing() -> ForgeReply {
    ForgeReply::json(404, &json!({"message": "The target couldn't be found.", "errors": []}))
}

fn status(row: &PostedStatusRow) -> Value {
    json!({"id": 1, "status": row.state, "context": row.context, "description": row.description, "target_url": row.url})
}

fn pull(pull: &FakePullRequest) -> Value {
    let head = match pull.from {
        PullRequestOrigin::Here => 1,
        PullRequestOrigin::Fork => 2,
        PullRequestOrigin::GoneFork => 0,
    };
    json!({
        "number": pull.number,
        "title": pull.title,
        "state": if pull.state == "open" { "open" } else { "closed" },
        "merged": pull.state == "merged",
        "html_url": format!("https://gitea.example.com/team/models/pulls/{}", pull.number),
        "base": {"ref": pull.base, "sha": super::sha(1), "repo_id": 1},
        "head": {"ref": pull.branch, "sha": pull.head, "repo_id": head},
    })
}

fn comment(note: &FakeComment) -> Value {
    json!({"id": note.id, "body": note.body, "user": {"id": 2, "login": note.author}})
}
