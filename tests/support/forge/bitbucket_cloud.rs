//! Bitbucket Cloud: keys of forty characters, an address that must be there, hashes of twelve characters, pages by address.

use super::state::{FakeComment, FakePullRequest, PostedStatusRow, PullRequestOrigin, page};
use super::{CANARY, FakeForgeState, ForgeReply, RecordedRequest};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

pub fn answer(state: &mut FakeForgeState, seen: &RecordedRequest, root: &str) -> Result<ForgeReply, ForgeReply> {
    let path: Vec<&str> = seen.path.iter().map(String::as_str).collect();
    let basic = format!("Basic {}", STANDARD.encode(format!("ada@example.com:{CANARY}")));
    if ![format!("Bearer {CANARY}"), basic].contains(&seen.header("authorization").to_owned()) {
        return Err(error(401, "Token is invalid or not supported for this endpoint."));
    }
    if path == ["user"] {
        return Ok(ForgeReply::json(200, &json!({"uuid": uuid(&state.account), "display_name": "stator"})));
    }
    let ["repositories", "team", "models", rest @ ..] = path.as_slice() else { return Err(missing()) };
    let paged = |all: Vec<Value>, most: usize| {
        let (number, size) = (seen.number("page", 1), seen.number("pagelen", 10));
        if size > most {
            return Err(error(400, "Invalid pagelen"));
        }
        let mut shown = json!({"values": page(&all, number, size), "pagelen": size, "page": number});
        if number * size < all.len() {
            let query: String = url::form_urlencoded::Serializer::new(String::new()).extend_pairs(&seen.query).finish();
            let next = number + 1;
            shown["next"] = json!(format!("{root}/2.0/{}?{query}&page={next}", seen.place()));
        }
        Ok(ForgeReply::json(200, &shown))
    };
    match (seen.method.as_str(), rest) {
        ("POST", ["commit", commit, "statuses", "build"]) => {
            seen.only(&["key", "state", "name", "description", "url"])?;
            let key = seen.text("key");
            if key.is_empty() || key.chars().count() > 40 {
                return Err(error(400, "key: Ensure this value has at most 40 characters"));
            }
            if !seen.text("url").starts_with("http") {
                return Err(error(400, "url: This field is required"));
            }
            if !state.commits.iter().any(|known| known == commit) {
                return Err(missing());
            }
            let row = row(commit, seen);
            state.upsert(row.clone());
            Ok(ForgeReply::json(201, &status(&row)))
        }
        ("GET", ["commit", commit, "statuses"]) => paged(state.newest(commit).iter().map(status).collect(), 100),
        ("GET", ["commit", short]) => {
            let whole = state.commits.iter().find(|known| known.starts_with(short)).ok_or_else(missing)?;
            Ok(ForgeReply::json(200, &json!({ "hash": whole })))
        }
        ("GET", ["pullrequests"]) => {
            let wanted = seen.query.get("q").cloned().unwrap_or_default();
            let open = state.pulls.iter().filter(|pull| {
                pull.state == "open" && wanted.contains(&format!("destination.branch.name = \"{}\"", pull.base))
            });
            paged(open.map(pull).collect(), 50)
        }
        ("GET", ["pullrequests", number]) => Ok(ForgeReply::json(200, &pull(state.pull(number).ok_or_else(missing)?))),
        ("POST", ["pullrequests"]) => {
            seen.only(&["title", "description", "source", "destination"])?;
            let body = seen.body.clone().unwrap();
            let number = state.id();
            state.open(number, &seen.text("title"), PullRequestOrigin::Here);
            let opened = state.pulls.last_mut().unwrap();
            opened.branch = body["source"]["branch"]["name"].as_str().unwrap().to_owned();
            opened.base = body["destination"]["branch"]["name"].as_str().unwrap().to_owned();
            Ok(ForgeReply::json(201, &pull(opened)))
        }
        ("GET", ["pullrequests", number, "comments"]) => {
            let of = state.notes.iter().filter(|note| note.pull.to_string() == *number);
            paged(of.map(comment).collect(), 100)
        }
        ("POST", ["pullrequests", number, "comments"]) => {
            seen.only(&["content"])?;
            let number = state.pull(number).ok_or_else(missing)?.number;
            let author = state.account.clone();
            state.said(number, &author, &raw(seen));
            Ok(ForgeReply::json(201, &comment(state.notes.last().unwrap())))
        }
        ("PUT", ["pullrequests", _, "comments", id]) => {
            seen.only(&["content"])?;
            let note = state.notes.iter_mut().find(|note| note.id.to_string() == *id).ok_or_else(missing)?;
            note.body = raw(seen);
            Ok(ForgeReply::json(200, &comment(note)))
        }
        _ => Err(missing()),
    }
}

fn error(status: u16, message: &str) -> ForgeReply {
    ForgeReply::json(status, &json!({"type": "error", "error": {"message": message}}))
}

fn missing() -> ForgeReply {
    error(404, "Resource not found")
}

fn raw(seen: &RecordedRequest) -> String {
    seen.body.as_ref().unwrap()["content"]["raw"].as_str().unwrap().to_owned()
}

/// An account, as Bitbucket names them.
fn uuid(account: &str) -> String {
    format!("{{{}}}", account.to_uppercase())
}

pub fn row(commit: &str, seen: &RecordedRequest) -> PostedStatusRow {
    PostedStatusRow {
        commit: commit.to_owned(),
        key: seen.text("key"),
        context: seen.text("name"),
        state: seen.text("state"),
        description: seen.text("description"),
        url: seen.text("url"),
        on: String::new(),
    }
}

pub fn status(row: &PostedStatusRow) -> Value {
    json!({"key": row.key, "name": row.context, "state": row.state, "description": row.description, "url": row.url})
}

fn pull(pull: &FakePullRequest) -> Value {
    let source = match pull.from {
        PullRequestOrigin::Here => json!({"full_name": "team/models"}),
        PullRequestOrigin::Fork => json!({"full_name": "ada/models"}),
        PullRequestOrigin::GoneFork => Value::Null,
    };
    json!({
        "id": pull.number,
        "title": pull.title,
        "state": match pull.state { "closed" => "DECLINED".to_owned(), other => other.to_uppercase() },
        "source": {"branch": {"name": pull.branch}, "commit": {"hash": &pull.head[..12]}, "repository": source},
        "destination": {"branch": {"name": pull.base}, "commit": {"hash": "111111111111"}, "repository": {"full_name": "team/models"}},
        "links": {"html": {"href": format!("https://bitbucket.org/team/models/pull-requests/{}", pull.number)}},
    })
}

fn comment(note: &FakeComment) -> Value {
    json!({"id": note.id, "content": {"raw": note.body}, "user": {"uuid": uuid(&note.author).to_lowercase()}, "deleted": false})
}
