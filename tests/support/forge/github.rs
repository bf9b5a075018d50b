//! GitHub: statuses by the thousand and no more, contexts whatever their case, forks that are gone, limits and Apps.

use super::description::ApiDescription;
use super::state::{FakeComment, FakePullRequest, PostedStatusRow, PullRequestOrigin, page};
use super::{CANARY, FakeForgeState, ForgeReply, RecordedRequest};
use aws_lc_rs::encoding::AsDer as _;
use aws_lc_rs::rsa::{KeyPair, KeySize};
use aws_lc_rs::signature::{KeyPair as _, RSA_PKCS1_2048_8192_SHA256, UnparsedPublicKey};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use std::sync::OnceLock;

pub fn answer(
    state: &mut FakeForgeState,
    seen: &RecordedRequest,
    description: &ApiDescription,
) -> Result<ForgeReply, ForgeReply> {
    let path: Vec<&str> = seen.path.iter().map(String::as_str).collect();
    if seen.header("user-agent").is_empty() || seen.header("x-github-api-version") != "2022-11-28" {
        return Err(ForgeReply::message(403, "Request forbidden by administrative rules."));
    }
    let bearer = seen.header("authorization").strip_prefix("Bearer ").unwrap_or_default().to_owned();
    // An App itself comes with a claim, and everybody else with a token.
    if matches!(path.as_slice(), ["app", ..] | ["orgs" | "users", _, "installation"]) {
        return app(state, &path, &bearer, seen, description);
    }
    let known = bearer == CANARY || state.installed.iter().any(|(token, good)| *good && *token == bearer);
    if !known {
        return Err(ForgeReply::message(401, "Bad credentials"));
    }
    if path == ["user"] {
        let mut user = description.example("GET /user");
        user["login"] = json!(state.account);
        return Ok(ForgeReply::json(200, &user));
    }
    let ["repos", owner, name, rest @ ..] = path.as_slice() else { return Err(missing()) };
    if !owner.eq_ignore_ascii_case("team") || !name.eq_ignore_ascii_case("models") {
        return Err(missing());
    }
    match (seen.method.as_str(), rest) {
        ("POST", ["statuses", commit]) => set_status(state, commit, seen, description),
        ("GET", ["commits", commit, "status"]) => {
            let mut combined = description.example("GET /repos/{owner}/{repo}/commits/{ref}/status");
            let simple = combined["statuses"][0].clone();
            let newest = state.newest(commit);
            let rows = page(&newest, seen.number("page", 1), seen.number("per_page", 30));
            combined["statuses"] = rows.iter().map(|row| status(&simple, row)).collect();
            combined["total_count"] = json!(newest.len());
            Ok(ForgeReply::json(200, &combined))
        }
        ("GET", ["pulls"]) => {
            let base = seen.query.get("base").cloned().unwrap_or_default();
            let open: Vec<FakePullRequest> =
                state.pulls.iter().filter(|pull| pull.state == "open" && pull.base == base).cloned().collect();
            let simple = description.example("GET /repos/{owner}/{repo}/pulls")[0].clone();
            let some = page(&open, seen.number("page", 1), seen.number("per_page", 30));
            Ok(ForgeReply::json(200, &some.iter().map(|one| pull(&simple, one)).collect()))
        }
        ("GET", ["pulls", number]) => {
            let full = description.example("GET /repos/{owner}/{repo}/pulls/{pull_number}");
            Ok(ForgeReply::json(200, &pull(&full, state.pull(number).ok_or_else(missing)?)))
        }
        ("POST", ["pulls"]) => {
            if state.pulls.iter().any(|pull| pull.state == "open" && pull.branch == seen.text("head")) {
                let errors = json!([{"resource": "PullRequest", "code": "custom", "message": "A pull request already exists for team:rollback."}]);
                return Err(ForgeReply::json(422, &json!({"message": "Validation Failed", "errors": errors})));
            }
            let number = state.id();
            state.open(number, &seen.text("title"), PullRequestOrigin::Here);
            let opened = state.pulls.last_mut().unwrap();
            opened.branch = seen.text("head");
            opened.base = seen.text("base");
            let full = description.example("GET /repos/{owner}/{repo}/pulls/{pull_number}");
            Ok(ForgeReply::json(201, &pull(&full, state.pulls.last().unwrap())))
        }
        ("GET", ["issues", number, "comments"]) => {
            let of: Vec<FakeComment> =
                state.notes.iter().filter(|note| note.pull.to_string() == *number).cloned().collect();
            let some = page(&of, seen.number("page", 1), seen.number("per_page", 30));
            let simple = comment_example(description);
            Ok(ForgeReply::json(200, &some.iter().map(|note| comment(&simple, note)).collect()))
        }
        ("POST", ["issues", number, "comments"]) => {
            let body = bounded(seen)?;
            let number = state.pull(number).ok_or_else(missing)?.number;
            let author = state.account.clone();
            state.said(number, &author, &body);
            Ok(ForgeReply::json(201, &comment(&comment_example(description), state.notes.last().unwrap())))
        }
        ("PATCH", ["issues", "comments", id]) => {
            let body = bounded(seen)?;
            let note = state.notes.iter_mut().find(|note| note.id.to_string() == *id).ok_or_else(missing)?;
            note.body = body;
            Ok(ForgeReply::json(200, &comment(&comment_example(description), note)))
        }
        _ => Err(missing()),
    }
}

fn missing() -> ForgeReply {
    ForgeReply::message(404, "Not Found")
}

fn bounded(seen: &RecordedRequest) -> Result<String, ForgeReply> {
    let body = seen.text("body");
    if body.chars().count() > 65_536 {
        let errors = json!([{"resource": "IssueComment", "code": "custom", "field": "body", "message": "body is too long (maximum is 65536 characters)"}]);
        return Err(ForgeReply::json(422, &json!({"message": "Validation Failed", "errors": errors})));
    }
    Ok(body)
}

fn set_status(
    state: &mut FakeForgeState,
    commit: &str,
    seen: &RecordedRequest,
    description: &ApiDescription,
) -> Result<ForgeReply, ForgeReply> {
    if !state.commits.iter().any(|known| known == commit) {
        return Err(ForgeReply::message(422, &format!("No commit found for SHA: {commit}")));
    }
    // Whatever its case, a context is one.
    let context = seen.text("context").to_lowercase();
    let so_far = state.statuses.iter().filter(|row| row.commit == commit && row.context == context).count();
    if so_far >= state.wall {
        let errors = json!([{"resource": "Status", "code": "custom", "message": "This SHA and context has reached the maximum number of statuses."}]);
        return Err(ForgeReply::json(422, &json!({"message": "Validation Failed", "errors": errors})));
    }
    if seen.text("description").chars().count() > 140 {
        let errors = json!([{"resource": "Status", "code": "custom", "field": "description", "message": "description is too long (maximum is 140 characters)"}]);
        return Err(ForgeReply::json(422, &json!({"message": "Validation Failed", "errors": errors})));
    }
    let row = PostedStatusRow {
        commit: commit.to_owned(),
        key: String::new(),
        context,
        state: seen.text("state"),
        description: seen.text("description"),
        url: seen.text("target_url"),
        on: String::new(),
    };
    state.statuses.push(row.clone());
    let example = description.example("POST /repos/{owner}/{repo}/statuses/{sha}");
    Ok(ForgeReply::json(201, &status(&example, &row)))
}

fn status(example: &Value, row: &PostedStatusRow) -> Value {
    let mut status = example.clone();
    status["state"] = json!(row.state);
    status["context"] = json!(row.context);
    status["description"] = json!(row.description);
    status["target_url"] = if row.url.is_empty() { Value::Null } else { json!(row.url) };
    status
}

fn pull(example: &Value, pull: &FakePullRequest) -> Value {
    let mut shown = example.clone();
    shown["number"] = json!(pull.number);
    shown["title"] = json!(pull.title);
    shown["state"] = json!(if pull.state == "open" { "open" } else { "closed" });
    shown["merged_at"] = if pull.state == "merged" { json!("2026-01-01T00:00:00Z") } else { Value::Null };
    shown["html_url"] = json!(format!("https://github.com/team/models/pull/{}", pull.number));
    // The documented example does not fit the description here.
    shown["requested_teams"] = json!([]);
    shown["base"]["ref"] = json!(pull.base);
    shown["head"]["ref"] = json!(pull.branch);
    shown["head"]["sha"] = json!(pull.head);
    let mut repository = shown["base"]["repo"].clone();
    // As a repository that is a fork itself: that alone makes nothing foreign.
    shown["base"]["repo"]["fork"] = json!(true);
    shown["head"]["repo"] = match pull.from {
        PullRequestOrigin::Here => shown["base"]["repo"].clone(),
        PullRequestOrigin::Fork => {
            repository["id"] = json!(999);
            repository
        }
        PullRequestOrigin::GoneFork => Value::Null,
    };
    shown
}

fn comment_example(description: &ApiDescription) -> Value {
    description.example("POST /repos/{owner}/{repo}/issues/{issue_number}/comments")
}

fn comment(example: &Value, note: &FakeComment) -> Value {
    let mut comment = example.clone();
    comment["id"] = json!(note.id);
    comment["body"] = json!(note.body);
    comment["user"]["login"] = json!(note.author);
    comment
}

/// The App's key. Made once, as making it takes a while.
fn app_key_pair() -> &'static KeyPair {
    static KEY: OnceLock<KeyPair> = OnceLock::new();
    KEY.get_or_init(|| KeyPair::generate(KeySize::Rsa2048).unwrap())
}

/// The App's key as GitHub gives it out: PKCS #1.
pub fn app_key() -> &'static str {
    static TEXT: OnceLock<String> = OnceLock::new();
    TEXT.get_or_init(|| {
        let pkcs8: aws_lc_rs::encoding::Pkcs8V1Der<'_> = app_key_pair().as_der().unwrap();
        // What PKCS #8 wraps is PKCS #1, after a header that is always the same for this length.
        pem::encode(&pem::Pem::new("RSA PRIVATE KEY", &pkcs8.as_ref()[26..]))
    })
}

/// The parts of a claim that the App's key signed.
fn signed_claim(claim: &str) -> Option<(Value, Value)> {
    let (signed, signature) = claim.rsplit_once('.')?;
    let public = UnparsedPublicKey::new(&RSA_PKCS1_2048_8192_SHA256, app_key_pair().public_key().as_ref());
    public.verify(signed.as_bytes(), &URL_SAFE_NO_PAD.decode(signature).ok()?).ok()?;
    let (header, claims) = signed.split_once('.')?;
    let part = |text: &str| serde_json::from_slice(&URL_SAFE_NO_PAD.decode(text).ok()?).ok();
    Some((part(header)?, part(claims)?))
}

/// What only an App may ask, with a claim that its key signs.
fn app(
    state: &mut FakeForgeState,
    path: &[&str],
    claim: &str,
    seen: &RecordedRequest,
    description: &ApiDescription,
) -> Result<ForgeReply, ForgeReply> {
    let now = Timestamp::now() + SignedDuration::from_secs(state.ahead);
    let date = jiff::fmt::rfc2822::to_string(&now.to_zoned(jiff::tz::TimeZone::UTC)).unwrap().replace("+0000", "GMT");
    let bad = |why: &str| ForgeReply::message(401, why).with("date", &date);
    let (header, claims) = signed_claim(claim).unwrap_or_default();
    if header["alg"] != "RS256" || claims["iss"] != "4711" {
        return Err(bad("A JSON web token could not be decoded"));
    }
    let (issued, ends) = (claims["iat"].as_i64().unwrap_or(i64::MAX), claims["exp"].as_i64().unwrap_or(0));
    if issued > now.as_second() {
        return Err(bad(
            "'Issued at' claim ('iat') must be an Integer representing the time that the assertion was issued",
        ));
    }
    if ends < now.as_second() || ends > now.as_second() + 600 {
        return Err(bad("'Expiration time' claim ('exp') is too far in the future"));
    }
    match path {
        ["app"] => {
            let mut itself = description.example("GET /app");
            itself["slug"] = json!(state.account.to_lowercase());
            Ok(ForgeReply::json(200, &itself))
        }
        ["app", "installations", "5", "access_tokens"] => {
            assert_eq!(seen.body.as_ref().unwrap()["repositories"], json!(["models"]));
            // GitHub's tokens are of no fixed length any more.
            let minted = format!("ghs_4711_{}_{CANARY}", state.installed.len());
            state.installed.push((minted.clone(), true));
            let mut token = description.example("POST /app/installations/{installation_id}/access_tokens");
            token["token"] = json!(minted);
            let ends = now + SignedDuration::from_secs(state.holds);
            token["expires_at"] = json!(Timestamp::from_second(ends.as_second()).unwrap().to_string());
            Ok(ForgeReply::json(201, &token).with("date", &date))
        }
        ["users", "ada", "installation"] => {
            let mut found = description.example("GET /orgs/{org}/installation");
            found["id"] = json!(5);
            Ok(ForgeReply::json(200, &found))
        }
        _ => Err(missing()),
    }
}
