//! One repository: pushes as people make them, and what the API says of it.

use super::Gitea;
use crate::testbed;
use serde_json::{Value, json};
use std::path::Path;
use std::process::{Command, Stdio};

/// A repository on Gitea.
#[derive(Clone, Debug)]
pub struct Repository<'a> {
    gitea: &'a Gitea,
    owner: String,
    name: String,
}

/// A status that was posted.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct GiteaStatus {
    /// Its number: later ones have higher ones.
    pub id: u64,
    /// Its context.
    pub context: String,
    /// `pending`, `success`, `failure`, `error`.
    pub state: String,
    /// Its sentence.
    pub description: String,
    /// Its link; may be empty.
    pub target: String,
    /// Who posted it.
    pub account: String,
}

/// A comment on a pull request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GiteaComment {
    /// Its number.
    pub id: u64,
    /// Who wrote it.
    pub account: String,
    /// Its text.
    pub body: String,
}

impl<'a> Repository<'a> {
    /// A handle on a repository that exists.
    pub fn new(gitea: &'a Gitea, owner: &str, name: &str) -> Self {
        Self { gitea, owner: owner.to_owned(), name: name.to_owned() }
    }

    /// Where it is fetched from: `https://127.0.0.1:PORT/team/NAME.git`.
    pub fn url(&self) -> String {
        format!("{}/{}/{}.git", self.gitea.url(), self.owner, self.name)
    }

    /// Where it is fetched from over SSH.
    pub fn ssh_url(&self) -> String {
        format!("ssh://git@127.0.0.1:{}/{}/{}.git", self.gitea.ssh_port(), self.owner, self.name)
    }

    /// `team/NAME`.
    pub fn path(&self) -> String {
        format!("{}/{}", self.owner, self.name)
    }

    /// Pushes with the real git, as the owner. What it says when it is refused is the error.
    pub fn try_push(&self, folder: &Path, args: &[&str]) -> Result<(), String> {
        self.git(folder, &["push", "--quiet", &self.address()], args)
    }

    /// Clones a branch into a folder, which must be empty.
    #[track_caller]
    pub fn clone_into(&self, folder: &Path, branch: &str) {
        let address = self.address();
        self.git(folder, &["clone", "--quiet", "--branch", branch, &address, "."], &[]).unwrap();
    }

    /// The address with the owner's token.
    fn address(&self) -> String {
        self.url().replacen("://", &format!("://{}:{}@", super::OWNER, self.gitea.owner_token()), 1)
    }

    fn git(&self, folder: &Path, verb: &[&str], args: &[&str]) -> Result<(), String> {
        let home = tempfile::tempdir().map_err(|error| error.to_string())?;
        let output = Command::new("git")
            .args(verb)
            .args(args)
            .current_dir(folder)
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", home.path())
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .env("GIT_TERMINAL_PROMPT", "0")
            .env("GIT_SSL_CAINFO", self.gitea.certificate())
            // A server that says nothing for this long is given up.
            .env("GIT_HTTP_LOW_SPEED_LIMIT", "1")
            .env("GIT_HTTP_LOW_SPEED_TIME", "60")
            .stdin(Stdio::null())
            .output()
            .map_err(|error| error.to_string())?;
        if output.status.success() {
            return Ok(());
        }
        Err(String::from_utf8_lossy(&output.stderr).replace(self.gitea.owner_token(), "TOKEN"))
    }

    /// Pushes what a folder's repository has at HEAD to a branch, and waits until the API knows it.
    #[track_caller]
    pub fn push(&self, folder: &Path, branch: &str) {
        self.try_push(folder, &[&format!("HEAD:refs/heads/{branch}")])
            .unwrap_or_else(|error| panic!("{error}\n{}", self.gitea.logs()));
        self.wait_for_branch(folder, branch);
    }

    /// The same, over what is there.
    #[track_caller]
    pub fn force_push(&self, folder: &Path, branch: &str) {
        self.try_push(folder, &["--force", &format!("HEAD:refs/heads/{branch}")]).unwrap();
        self.wait_for_branch(folder, branch);
    }

    /// Gitea enters a push into its database after it has answered it.
    fn wait_for_branch(&self, folder: &Path, branch: &str) {
        let commit = git2::Repository::open(folder).and_then(|git| git.revparse_single("HEAD").map(|head| head.id()));
        self.wait_for_tip(branch, &commit.unwrap().to_string());
    }

    /// Waits until the API knows that a branch has this commit.
    pub fn wait_for_tip(&self, branch: &str, commit: &str) {
        let path = format!("/repos/{}", self.path());
        let read = |path: &str| match self.gitea.try_call(self.gitea.owner_token(), "GET", path, None) {
            Ok((200, answer)) => answer,
            Ok(_) | Err(_) => Value::Null,
        };
        let known = || {
            let tip = read(&format!("{path}/branches/{branch}"));
            tip["commit"]["id"] == commit && read(&path)["empty"] == false
        };
        self.gitea.until("a pushed branch is known", known).unwrap();
    }

    /// Calls the API below the repository as its owner.
    #[track_caller]
    pub fn call(&self, method: &str, path: &str, body: &Value) -> Value {
        self.gitea.call(method, &format!("/repos/{}/{}{path}", self.owner, self.name), body)
    }

    /// Lets a public SSH key fetch.
    pub fn deploy_key(&self, title: &str, key: &str) {
        self.call("POST", "/keys", &json!({"title": title, "key": key, "read_only": true}));
    }

    /// Lets an account in: `read`, `write` or `admin`.
    pub fn let_in(&self, account: &str, permission: &str) {
        self.call("PUT", &format!("/collaborators/{account}"), &json!({"permission": permission}));
    }

    /// Opens a pull request between two branches and gives its number.
    pub fn open_pull_request(&self, head: &str, base: &str, title: &str) -> u64 {
        let answer = self.call("POST", "/pulls", &json!({"head": head, "base": base, "title": title}));
        answer["number"].as_u64().unwrap()
    }

    /// Changes a pull request: `{"state": "closed"}`, `{"base": "other"}`.
    pub fn edit_pull_request(&self, number: u64, change: &Value) {
        self.call("PATCH", &format!("/pulls/{number}"), change);
    }

    /// Merges a pull request. Gitea first looks whether it can be, for which it takes a moment.
    pub fn merge(&self, number: u64) {
        let path = format!("/repos/{}/{}/pulls/{number}/merge", self.owner, self.name);
        let body = json!({"Do": "merge"});
        testbed::until("it can be merged", || {
            match self.gitea.try_call(self.gitea.owner_token(), "POST", &path, Some(&body)).unwrap() {
                (200, _) => Ok(()),
                (code @ (405 | 409), answer) => Err(move || format!("{code} {answer}")),
                (code, answer) => panic!("{path}: {code} {answer}"),
            }
        });
    }

    /// Every status that was ever posted on a commit, oldest first.
    pub fn statuses(&self, commit: &str) -> Vec<GiteaStatus> {
        let rows = self.all(&format!("/statuses/{commit}"));
        let mut all: Vec<GiteaStatus> = rows
            .iter()
            .map(|row| GiteaStatus {
                id: row["id"].as_u64().unwrap(),
                context: text(&row["context"]),
                state: text(&row["status"]),
                description: text(&row["description"]),
                target: text(&row["target_url"]),
                account: text(&row["creator"]["login"]),
            })
            .collect();
        all.sort();
        all
    }

    /// The newest status of a context on a commit.
    pub fn status(&self, commit: &str, context: &str) -> Option<GiteaStatus> {
        self.statuses(commit).into_iter().rfind(|status| status.context == context)
    }

    /// The comments of a pull request, oldest first.
    pub fn comments(&self, number: u64) -> Vec<GiteaComment> {
        let rows = self.call("GET", &format!("/issues/{number}/comments"), &Value::Null);
        let rows = rows.as_array().cloned().unwrap_or_default();
        let comment = |row: &Value| GiteaComment {
            id: row["id"].as_u64().unwrap(),
            account: text(&row["user"]["login"]),
            body: text(&row["body"]),
        };
        rows.iter().map(comment).collect()
    }

    /// Has Gitea call an address on every push and pull request, signed with a secret. Gives the hook's number.
    pub fn webhook(&self, address: &str, secret: &str) -> u64 {
        let answer = self.call(
            "POST",
            "/hooks",
            &json!({
                "type": "gitea", "active": true,
                "events": ["push", "create", "delete", "pull_request", "pull_request_sync"],
                "config": {"url": address, "content_type": "json", "secret": secret},
            }),
        );
        answer["id"].as_u64().unwrap()
    }

    /// The newest commit of a branch.
    pub fn tip(&self, branch: &str) -> String {
        text(&self.call("GET", &format!("/branches/{branch}"), &Value::Null)["commit"]["id"])
    }

    /// Every page of a list.
    fn all(&self, path: &str) -> Vec<Value> {
        let mut rows = Vec::new();
        for page in 1.. {
            let answer = self.call("GET", &format!("{path}?page={page}"), &Value::Null);
            let found = answer.as_array().cloned().unwrap_or_default();
            if found.is_empty() {
                break;
            }
            rows.extend(found);
        }
        rows
    }
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}
