//! Pages on this machine belong to who sees the terminal: a link with a token that works once, and a cookie after that. The
//! host that a request names is checked, so that no other site reaches them through a name of its own (DNS rebinding).

use super::sessions::{cookie_values, is_equal, random_token};
use http::{HeaderMap, header};
use stator_view::problem::{ProblemDetails, ProblemKind};
use std::net::SocketAddr;
use std::sync::{Mutex, PoisonError};

/// The link and the cookie of one process.
#[derive(Debug)]
pub(super) struct LinkGate {
    /// What `Host` may say.
    hosts: Vec<String>,
    /// What the link has to say next.
    token: Mutex<String>,
    /// What the cookie has to say.
    session: String,
    cookie_name: String,
}

impl LinkGate {
    /// For a listener at that address. `None` where the system has no random numbers.
    pub(super) fn new(address: SocketAddr) -> Option<Self> {
        let port = address.port();
        let mut hosts = vec![address.to_string(), format!("localhost:{port}")];
        if port == 80 {
            // Browsers leave out what is usual.
            let ip = address.ip();
            hosts.push(if ip.is_ipv6() { format!("[{ip}]") } else { ip.to_string() });
            hosts.push("localhost".to_owned());
        }
        Some(Self {
            hosts,
            token: Mutex::new(random_token()?),
            session: random_token()?,
            // Cookies do not tell ports of a host apart, and several processes may listen on it.
            cookie_name: format!("stator-{port}"),
        })
    }

    /// The link that works next, at that address.
    pub(super) fn link(&self, address: SocketAddr) -> String {
        let token = self.token.lock().unwrap_or_else(PoisonError::into_inner).clone();
        format!("http://{address}/enter?token={token}")
    }

    /// The host that a request names, where it is this one.
    pub(super) fn check_host(&self, headers: &HeaderMap, authority: Option<&str>) -> Result<&str, ProblemDetails> {
        let mut named = headers.get_all(header::HOST).iter();
        let host = named.next().and_then(|host| host.to_str().ok());
        let is_single = named.next().is_none();
        let known = |host: &str| self.hosts.iter().find(|own| own.eq_ignore_ascii_case(host)).map(String::as_str);
        let own = host.filter(|_| is_single).and_then(known);
        let is_same = authority.is_none_or(|authority| known(authority).is_some());
        own.filter(|_| is_same).ok_or_else(|| ProblemDetails::new(ProblemKind::WrongHost))
    }

    /// Whether a request has the cookie.
    pub(super) fn has_session(&self, headers: &HeaderMap) -> bool {
        cookie_values(headers, &self.cookie_name).any(|value| is_equal(value, &self.session))
    }

    /// The cookie for who has the token of the link, which works no more then.
    pub(super) fn redeem(&self, token: &str) -> Option<String> {
        let mut known = self.token.lock().unwrap_or_else(PoisonError::into_inner);
        if !is_equal(token, &known) {
            return None;
        }
        *known = random_token()?;
        Some(format!("{}={}; Path=/; HttpOnly; SameSite=Strict", self.cookie_name, self.session))
    }
}
