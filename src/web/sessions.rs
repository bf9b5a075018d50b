//! What nobody can guess, and where browsers keep it; and who signed in: a cookie that says nothing, and the token that it
//! stands for, in memory alone.

use crate::server::ReviewedUser;
use aws_lc_rs::constant_time::verify_slices_are_equal;
use aws_lc_rs::{digest, rand};
use http::{HeaderMap, header};
use secrecy::SecretString;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::time::Instant;

/// Bytes of tokens: as many as keep anybody from guessing.
const TOKEN_BYTES: usize = 32;
/// Sessions at a time.
const MAX_SESSIONS: usize = 1000;
/// Sessions of one user at a time.
const MAX_SESSIONS_OF_USER: usize = 16;

/// What says who a session is of.
#[derive(Clone, Debug)]
pub(super) enum SessionProof {
    /// A token, of which the API server is asked again and again.
    Token(SecretString),
    /// What a provider said when they signed in.
    Person(Arc<ReviewedUser>),
}

/// The sessions, by the digest of their cookie: a look at the memory of the process gives nobody a cookie.
#[derive(Debug, Default)]
pub(super) struct SessionStore {
    sessions: Mutex<HashMap<Vec<u8>, Session>>,
}

#[derive(Clone, Debug)]
struct Session {
    proof: SessionProof,
    user: String,
    since: Instant,
}

impl SessionStore {
    /// How long a session lasts at most.
    pub(super) const LIFETIME: Duration = Duration::from_hours(8);

    /// The token that a cookie stands for.
    pub(super) fn proof(&self, cookie: &str) -> Option<SessionProof> {
        let sessions = self.sessions.lock().unwrap_or_else(PoisonError::into_inner);
        sessions.get(&key(cookie)).filter(|one| one.since.elapsed() < Self::LIFETIME).map(|one| one.proof.clone())
    }

    /// Keeps a session. Where there are too many, those that are oldest end: the user's own first.
    pub(super) fn insert(&self, cookie: &str, proof: SessionProof, user: &str) {
        let mut sessions = self.sessions.lock().unwrap_or_else(PoisonError::into_inner);
        sessions.retain(|_, session| session.since.elapsed() < Self::LIFETIME);
        if sessions.values().filter(|session| session.user == user).count() >= MAX_SESSIONS_OF_USER {
            remove_oldest(&mut sessions, |session| session.user == user);
        }
        if sessions.len() >= MAX_SESSIONS {
            remove_oldest(&mut sessions, |_| true);
        }
        sessions.insert(key(cookie), Session { proof, user: user.to_owned(), since: Instant::now() });
    }

    /// Ends a session.
    pub(super) fn remove(&self, cookie: &str) {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner).remove(&key(cookie));
    }
}

fn key(cookie: &str) -> Vec<u8> {
    digest::digest(&digest::SHA256, cookie.as_bytes()).as_ref().to_vec()
}

fn remove_oldest(sessions: &mut HashMap<Vec<u8>, Session>, which: impl Fn(&Session) -> bool) {
    let oldest = sessions.iter().filter(|(_, session)| which(session)).min_by_key(|(_, session)| session.since);
    if let Some(key) = oldest.map(|(key, _)| key.clone()) {
        sessions.remove(&key);
    }
}

/// Whether two texts are the same, found out in a time that says nothing about them.
pub(super) fn is_equal(one: &str, other: &str) -> bool {
    verify_slices_are_equal(one.as_bytes(), other.as_bytes()).is_ok()
}

/// A text that nobody can guess. `None` where the system has no random numbers.
pub(crate) fn random_token() -> Option<String> {
    let mut bytes = [0; TOKEN_BYTES];
    rand::fill(&mut bytes).ok()?;
    Some(hex::encode(bytes))
}

/// Every value that a request has for a cookie: a browser may send several, of several paths.
pub(super) fn cookie_values<'a>(headers: &'a HeaderMap, cookie: &'a str) -> impl Iterator<Item = &'a str> {
    let pairs = headers.get_all(header::COOKIE).iter().filter_map(|value| value.to_str().ok());
    let values = pairs.flat_map(|text| text.split(';')).filter_map(|pair| pair.trim().split_once('='));
    values.filter(move |(name, _)| *name == cookie).map(|(_, value)| value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use secrecy::ExposeSecret as _;

    fn held(store: &SessionStore, cookies: impl IntoIterator<Item = String>) -> Vec<String> {
        let proofs = cookies.into_iter().filter_map(|cookie| store.proof(&cookie));
        let text = |proof| match proof {
            SessionProof::Token(token) => token.expose_secret().to_owned(),
            SessionProof::Person(user) => user.name().to_owned(),
        };
        proofs.map(text).collect()
    }

    fn token(text: &str) -> SessionProof {
        SessionProof::Token(SecretString::from(text))
    }

    #[tokio::test(start_paused = true)]
    async fn sessions_end_by_time_by_number_and_by_signing_out() {
        let store = SessionStore::default();
        store.insert("first", token("alice's"), "alice");
        for number in 0..MAX_SESSIONS_OF_USER {
            tokio::time::advance(Duration::from_secs(1)).await;
            store.insert(&format!("mallory-{number}"), token(&number.to_string()), "mallory");
        }
        tokio::time::advance(Duration::from_secs(1)).await;
        store.insert("mallory-more", token("more"), "mallory");
        let of_mallory = (0..3).map(|number| format!("mallory-{number}"));
        assert_eq!(held(&store, of_mallory), ["1", "2"], "the oldest of the same user ended");
        assert_eq!(held(&store, ["first".to_owned(), "nobody".to_owned()]), ["alice's"]);
        store.remove("mallory-1");
        assert_eq!(held(&store, ["mallory-1".to_owned()]), Vec::<String>::new());
        tokio::time::advance(SessionStore::LIFETIME).await;
        assert_eq!(held(&store, ["first".to_owned(), "mallory-more".to_owned()]), Vec::<String>::new());
        assert!(!format!("{store:?}").contains("alice's"), "{store:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn many_users_push_out_the_oldest_session() {
        let store = SessionStore::default();
        for number in 0..=MAX_SESSIONS {
            store.insert(&format!("cookie-{number}"), token("token"), &format!("user-{number}"));
            tokio::time::advance(Duration::from_millis(1)).await;
        }
        let held = |number: usize| store.proof(&format!("cookie-{number}")).is_some();
        assert_eq!((held(0), held(1), held(MAX_SESSIONS)), (false, true, true));
    }
}
