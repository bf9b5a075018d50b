//! Calls of Gitea's API.

use super::{BOT, Gitea, OWNER, Repository};
use serde_json::{Value, json};
use std::time::Duration;

impl Gitea {
    /// Calls the API below `/api/v1` with a token, or without one when it is empty. Gives the code and the answer.
    pub fn try_call(
        &self,
        token: &str,
        method: &str,
        path: &str,
        body: Option<&Value>,
    ) -> Result<(u16, Value), String> {
        // A thread of its own, since the caller may be inside a runtime.
        let call = || -> Result<(u16, Value), String> {
            let text = |error: reqwest::Error| error.to_string();
            let method = method.parse::<reqwest::Method>().map_err(|error| error.to_string())?;
            let mut request = self.http()?.request(method, format!("{}/api/v1{path}", self.url()));
            if !token.is_empty() {
                request = request.header("Authorization", format!("token {token}"));
            }
            if let Some(body) = body {
                request = request.json(body);
            }
            let answer = request.send().map_err(text)?;
            let code = answer.status().as_u16();
            let text = answer.text().map_err(text)?;
            Ok((code, serde_json::from_str(&text).unwrap_or(Value::String(text))))
        };
        std::thread::scope(|scope| scope.spawn(call).join().map_err(|_| "a panic".to_owned())?)
    }

    /// Calls the API as the owner, and fails the test when that is refused.
    #[track_caller]
    pub fn call(&self, method: &str, path: &str, body: &Value) -> Value {
        let body = (!body.is_null()).then_some(body);
        match self.try_call(self.owner_token(), method, path, body) {
            Ok((200..=299, answer)) => answer,
            Ok((code, answer)) => panic!("{method} {path}: {code} {answer}"),
            Err(error) => panic!("{method} {path}: {error}\n{}", self.logs()),
        }
    }

    fn http(&self) -> Result<&reqwest::blocking::Client, String> {
        if let Some(client) = self.http.get() {
            return Ok(client);
        }
        crate::testbed::provider();
        let text = |error: reqwest::Error| error.to_string();
        let pem = fs_err::read(self.certificate()).map_err(|error| error.to_string())?;
        let certificate = reqwest::Certificate::from_pem(&pem).map_err(text)?;
        let client = reqwest::blocking::Client::builder()
            .tls_certs_only([certificate])
            .no_proxy()
            .timeout(Duration::from_secs(60))
            .build()
            .map_err(text)?;
        Ok(self.http.get_or_init(|| client))
    }

    /// Makes an empty repository `team/NAME`, which the bot may write to.
    pub fn repository(&self, name: &str) -> Repository<'_> {
        self.call("POST", "/user/repos", &json!({"name": name, "private": true, "default_branch": "main"}));
        self.call("PUT", &format!("/repos/{OWNER}/{name}/collaborators/{BOT}"), &json!({"permission": "write"}));
        Repository::new(self, OWNER, name)
    }

    /// Makes one more account, and gives a token of it.
    pub fn user(&self, name: &str) -> String {
        self.call(
            "POST",
            "/admin/users",
            &json!({"username": name, "email": format!("{name}@example.com"), "password": self.password(),
                    "must_change_password": false}),
        );
        self.token(name, &["all"])
    }

    /// Makes a token of an account with these scopes.
    pub fn token(&self, account: &str, scopes: &[&str]) -> String {
        let path = format!("{}/api/v1/users/{account}/tokens", self.url());
        let body = json!({"name": uuid::Uuid::new_v4().to_string(), "scopes": scopes});
        let call = || -> Result<Value, String> {
            let text = |error: reqwest::Error| error.to_string();
            let request = self.http()?.post(path).basic_auth(account, Some(self.password())).json(&body);
            request.send().map_err(text)?.json().map_err(text)
        };
        let answer = std::thread::scope(|scope| scope.spawn(call).join().unwrap().unwrap());
        answer["sha1"].as_str().unwrap_or_else(|| panic!("no token: {answer}")).to_owned()
    }
}
