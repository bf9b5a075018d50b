//! GitLab: a status is a job that goes through states, listed twenty at a time unless asked otherwise.

use super::state::{FakeComment, FakePullRequest, PostedStatusRow, PullRequestOrigin, page};
use super::{CANARY, FakeForgeState, ForgeReply, RecordedRequest};
use serde_json::{Value, json};

pub fn answer(state: &mut FakeForgeState, seen: &RecordedRequest) -> Result<ForgeReply, ForgeReply> {
    let path: Vec<&str> = seen.path.iter().map(String::as_str).collect();
    if seen.header("private-token") != CANARY {
        return Err(ForgeReply::message(401, "401 Unauthorized"));
    }
    if path == ["user"] {
        return Ok(ForgeReply::json(200, &json!({"id": 2, "username": state.account})));
    }
    let ["projects", "team/sub/models", rest @ ..] = path.as_slice() else {
        return Err(ForgeReply::message(404, "404 Project Not Found"));
    };
    match (seen.method.as_str(), rest) {
        ("POST", ["statuses", commit]) => set_status(state, commit, seen),
        ("GET", ["repository", "commits", commit, "statuses"]) => {
            let mut newest = state.newest(commit);
            if let Some(name) = seen.query.get("name") {
                newest.retain(|row| row.context == *name);
            }
            Ok(paged(seen, &newest, status))
        }
        ("GET", ["repository", "commits", commit, "merge_requests"]) => {
            let with = state.pulls.iter().filter(|pull| pull.head == *commit);
            Ok(ForgeReply::json(200, &with.map(merge).collect()))
        }
        ("GET", ["merge_requests"]) => {
            let base = seen.query.get("target_branch").cloned().unwrap_or_default();
            assert_eq!(seen.query.get("state").map(String::as_str), Some("opened"));
            let open: Vec<FakePullRequest> =
                state.pulls.iter().filter(|pull| pull.state == "open" && pull.base == base).cloned().collect();
            Ok(paged(seen, &open, merge))
        }
        ("GET", ["merge_requests", number]) => Ok(ForgeReply::json(
            200,
            &merge(state.pull(number).ok_or_else(|| ForgeReply::message(404, "404 Not found"))?),
        )),
        ("POST", ["merge_requests"]) => {
            seen.only(&["title", "description", "target_branch", "source_branch"])?;
            let branch = seen.text("source_branch");
            if state.pulls.iter().any(|pull| pull.state == "open" && pull.branch == branch) {
                let message = json!(["Another open merge request already exists for this source branch: !7"]);
                return Err(ForgeReply::json(409, &json!({ "message": message })));
            }
            let number = state.id();
            state.open(number, &seen.text("title"), PullRequestOrigin::Here);
            let opened = state.pulls.last_mut().unwrap();
            opened.branch = branch;
            opened.base = seen.text("target_branch");
            Ok(ForgeReply::json(201, &merge(opened)))
        }
        ("GET", ["merge_requests", number, "notes"]) => {
            let mut of: Vec<FakeComment> =
                state.notes.iter().filter(|note| note.pull.to_string() == *number).cloned().collect();
            if seen.query.get("sort").map(String::as_str) != Some("asc") {
                of.reverse();
            }
            Ok(paged(seen, &of, note))
        }
        ("POST", ["merge_requests", number, "notes"]) => {
            seen.only(&["body"])?;
            let number = state.pull(number).ok_or_else(|| ForgeReply::message(404, "404 Not found"))?.number;
            let author = state.account.clone();
            state.said(number, &author, &seen.text("body"));
            Ok(ForgeReply::json(201, &note(state.notes.last().unwrap())))
        }
        ("PUT", ["merge_requests", number, "notes", id]) => {
            seen.only(&["body"])?;
            let found = state.notes.iter_mut().find(|one| one.id.to_string() == *id && one.pull.to_string() == *number);
            let found = found.ok_or_else(|| ForgeReply::message(404, "404 Note Not Found"))?;
            found.body = seen.text("body");
            Ok(ForgeReply::json(200, &note(found)))
        }
        _ => Err(ForgeReply::message(404, "404 Not Found")),
    }
}

/// `app/services/ci/create_commit_status_service.rb`, as far as a client sees it.
fn set_status(state: &mut FakeForgeState, commit: &str, seen: &RecordedRequest) -> Result<ForgeReply, ForgeReply> {
    seen.only(&["state", "name", "description", "target_url", "ref"])?;
    if !state.commits.iter().any(|known| known == commit) {
        return Err(ForgeReply::message(404, "404 Commit Not Found"));
    }
    let (wanted, name, branch) = (seen.text("state"), seen.text("name"), seen.text("ref"));
    if branch.is_empty() && state.loose.iter().any(|loose| loose == commit) {
        return Err(ForgeReply::message(404, "404 References for commit Not Found"));
    }
    for field in ["description", "target_url", "ref"] {
        if seen.text(field).chars().count() > 255 {
            let message = json!({field: ["is too long (maximum is 255 characters)"]});
            return Err(ForgeReply::json(400, &json!({ "message": message })));
        }
    }
    let active =
        state.statuses.iter_mut().rev().find(|row| row.commit == commit && row.context == name && row.on == branch);
    if let Some(row) = active.filter(|row| row.state == "pending" || row.state == "running") {
        if row.state == wanted {
            let event = if wanted == "running" { "run" } else { "enqueue" };
            let message = format!("Cannot transition status via :{event} from :{wanted}");
            return Err(ForgeReply::message(
                400,
                &format!("{message} (Reason(s): Status cannot transition via \"{event}\")"),
            ));
        }
        row.state = wanted;
        row.description = seen.text("description");
        return Ok(ForgeReply::json(201, &status(&row.clone())));
    }
    // What has ended stays as it is, and a new job begins.
    let row = PostedStatusRow {
        commit: commit.to_owned(),
        key: String::new(),
        context: name,
        state: wanted,
        description: seen.text("description"),
        url: seen.text("target_url"),
        on: branch,
    };
    state.statuses.push(row.clone());
    Ok(ForgeReply::json(201, &status(&row)))
}

fn paged<T: Clone>(seen: &RecordedRequest, all: &[T], show: fn(&T) -> Value) -> ForgeReply {
    let (number, size) = (seen.number("page", 1), seen.number("per_page", 20).min(100));
    let more = number * size < all.len();
    let next = if more { (number + 1).to_string() } else { String::new() };
    ForgeReply::json(200, &page(all, number, size).iter().map(show).collect()).with("x-next-page", next)
}

fn status(row: &PostedStatusRow) -> Value {
    let url = if row.url.is_empty() { Value::Null } else { json!(row.url) };
    json!({"id": 1, "status": row.state, "name": row.context, "description": row.description, "target_url": url})
}

fn merge(pull: &FakePullRequest) -> Value {
    json!({
        "iid": pull.number,
        "title": pull.title,
        "state": match pull.state { "open" => "opened", other => other },
        "target_branch": pull.base,
        "source_branch": pull.branch,
        "sha": pull.head,
        "source_project_id": match pull.from { PullRequestOrigin::Here => json!(1), PullRequestOrigin::Fork => json!(2), PullRequestOrigin::GoneFork => Value::Null },
        "target_project_id": 1,
        "web_url": format!("https://gitlab.com/team/sub/models/-/merge_requests/{}", pull.number),
    })
}

fn note(note: &FakeComment) -> Value {
    json!({"id": note.id, "body": note.body, "system": note.system, "author": {"id": 2, "username": note.author}})
}
