//! What accounts may do, by the roles that the cluster holds, and what they did, by the API server's audit log.

use crate::testbed::AuditedRequest;
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding, PolicyRule, Role, RoleBinding, RoleRef, Subject};
use kube::api::{Api, ListParams};
use std::collections::BTreeSet;
use std::fmt;

/// One verb on one resource that an account was given: the smallest part of a rule.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Right {
    account: String,
    verb: String,
    resource: String,
    /// The API group; empty for the core's.
    group: String,
    /// The only object that it is for.
    name: Option<String>,
    /// The only namespace that it is for.
    namespace: Option<String>,
    /// The role that gives it.
    role: String,
}

impl fmt::Display for Right {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { account, verb, resource, group, name, namespace, role } = self;
        let name = name.as_ref().map(|name| format!("/{name}")).unwrap_or_default();
        let place = namespace.as_deref().unwrap_or("every namespace");
        write!(f, "{account} may {verb} {}{name} in {place}, by {role}", called(resource, group))
    }
}

/// One verb on one resource that a request took.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Need {
    account: String,
    verb: String,
    resource: String,
    group: String,
    name: String,
    namespace: String,
}

impl fmt::Display for Need {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { account, verb, resource, group, name, namespace } = self;
        write!(f, "{account} could {verb} {}/{name} in `{namespace}`", called(resource, group))
    }
}

impl Right {
    fn allows(&self, need: &Need) -> bool {
        let only = |limit: &Option<String>, asked: &str| limit.as_deref().is_none_or(|limit| limit == asked);
        (self.account == need.account || self.account == EVERYBODY)
            && (&self.verb, &self.resource, &self.group) == (&need.verb, &need.resource, &need.group)
            && only(&self.name, &need.name)
            && only(&self.namespace, &need.namespace)
    }
}

/// The group of all whom an API server knows.
const EVERYBODY: &str = "system:authenticated";

/// `models.stator.dev`; a kind of the core has no dot.
fn called(resource: &str, group: &str) -> String {
    if group.is_empty() { resource.to_owned() } else { format!("{resource}.{group}") }
}

/// An account, as API servers call it, by its namespace and name.
pub fn user(account: (&str, &str)) -> String {
    format!("system:serviceaccount:{}:{}", account.0, account.1)
}

/// All rights that roles of the cluster give these accounts. Fails where a release made a role that gives nobody anything.
pub async fn granted(client: &kube::Client, accounts: &[String]) -> Vec<Right> {
    let all = ListParams::default();
    let wide = Api::<ClusterRoleBinding>::all(client.clone()).list(&all).await.unwrap();
    let narrow = Api::<RoleBinding>::all(client.clone()).list(&all).await.unwrap();
    let wide = wide.items.into_iter().map(|one| (None, one.role_ref, one.subjects));
    let narrow = narrow.items.into_iter().map(|one| (one.metadata.namespace, one.role_ref, one.subjects));
    let (mut rights, mut bound) = (Vec::new(), BTreeSet::new());
    for (namespace, role, subjects) in wide.chain(narrow) {
        let subjects: Vec<String> = subjects.iter().flatten().filter_map(account_of).collect();
        let by_a_release = role.name == "stator-fleet-policy-reader";
        let counts = |subject: &&String| accounts.contains(subject) || by_a_release && **subject == EVERYBODY;
        for account in subjects.iter().filter(counts) {
            let rules = rules_of(client, namespace.as_deref(), &role).await;
            bound.insert(named(namespace.as_deref().filter(|_| role.kind == "Role"), &role.name));
            let by = format!("the {} {}", role.kind, role.name);
            rules.iter().for_each(|rule| split(rule, account, namespace.as_deref(), &by, &mut rights));
        }
    }
    let of_releases = ListParams::default().labels("app.kubernetes.io/managed-by=Helm");
    let wide = Api::<ClusterRole>::all(client.clone()).list(&of_releases).await.unwrap();
    let narrow = Api::<Role>::all(client.clone()).list(&of_releases).await.unwrap();
    let metadata = wide.items.into_iter().map(|role| role.metadata);
    let made: BTreeSet<String> = metadata
        .chain(narrow.items.into_iter().map(|role| role.metadata))
        .map(|own| named(own.namespace.as_deref(), &own.name.unwrap()))
        .collect();
    let idle: Vec<&String> = made.difference(&bound).collect();
    assert!(!made.is_empty() && idle.is_empty(), "of the roles {made:?} nobody has {idle:?}");
    rights.sort();
    rights
}

fn named(namespace: Option<&str>, name: &str) -> String {
    format!("{}/{name}", namespace.unwrap_or_default())
}

fn account_of(subject: &Subject) -> Option<String> {
    if subject.kind == "Group" && subject.name == EVERYBODY {
        return Some(subject.name.clone());
    }
    let namespace = subject.namespace.as_deref()?;
    (subject.kind == "ServiceAccount").then(|| user((namespace, &subject.name)))
}

async fn rules_of(client: &kube::Client, namespace: Option<&str>, role: &RoleRef) -> Vec<PolicyRule> {
    let rules = match (role.kind.as_str(), namespace) {
        ("Role", Some(own)) => Api::<Role>::namespaced(client.clone(), own).get(&role.name).await.unwrap().rules,
        _ => Api::<ClusterRole>::all(client.clone()).get(&role.name).await.unwrap().rules,
    };
    rules.unwrap_or_default()
}

/// A rule in its smallest parts.
fn split(rule: &PolicyRule, account: &str, namespace: Option<&str>, role: &str, rights: &mut Vec<Right>) {
    assert!(rule.non_resource_urls.as_ref().is_none_or(Vec::is_empty), "{rule:?}");
    let names = rule.resource_names.clone().filter(|names| !names.is_empty());
    let names = names.map_or_else(|| vec![None], |names| names.into_iter().map(Some).collect());
    for group in rule.api_groups.iter().flatten() {
        for resource in rule.resources.iter().flatten() {
            for verb in &rule.verbs {
                rights.extend(names.iter().map(|name| Right {
                    account: account.to_owned(),
                    verb: verb.clone(),
                    resource: resource.clone(),
                    group: group.clone(),
                    name: name.clone(),
                    namespace: namespace.map(str::to_owned),
                    role: role.to_owned(),
                }));
            }
        }
    }
}

/// What a request takes of whom.
fn needs(request: &AuditedRequest) -> Vec<Need> {
    let mut needs = Vec::new();
    if let Some(acting) = request.acting_as.as_deref() {
        let (namespace, name) = acting.trim_start_matches("system:serviceaccount:").split_once(':').unwrap();
        needs.push(Need {
            account: request.user.clone(),
            verb: "impersonate".to_owned(),
            resource: "serviceaccounts".to_owned(),
            group: String::new(),
            name: name.to_owned(),
            namespace: namespace.to_owned(),
        });
    }
    // What is no resource is the list of what the API server serves, which everybody may read.
    if request.resource.is_empty() {
        return needs;
    }
    let own = Need {
        account: request.acting_as.clone().unwrap_or_else(|| request.user.clone()),
        verb: request.verb.clone(),
        resource: request.resource.clone(),
        group: request.group.clone(),
        name: request.name.clone(),
        namespace: request.namespace.clone(),
    };
    // A server-side apply that makes an object takes both.
    if own.verb == "patch" && request.code == 201 {
        needs.push(Need { verb: "create".to_owned(), ..own.clone() });
    }
    needs.push(own);
    needs
}

/// Everything that these accounts needed and had, each once.
pub fn used(requests: &[AuditedRequest], accounts: &[String]) -> BTreeSet<Need> {
    let had = requests.iter().filter(|request| !matches!(request.code, 0 | 401 | 403));
    had.flat_map(needs).filter(|need| accounts.contains(&need.account)).collect()
}

/// What these accounts asked for and were refused, each once.
pub fn refused(requests: &[AuditedRequest], accounts: &[String]) -> Vec<String> {
    let refused = requests.iter().filter(|request| matches!(request.code, 401 | 403));
    let said = refused.filter_map(|request| {
        let account = request.acting_as.as_ref().unwrap_or(&request.user);
        let what =
            if request.resource.is_empty() { request.path.clone() } else { called(&request.resource, &request.group) };
        // What is asked for by name is told by name where there are few of the kind.
        let name = if request.group == "apiextensions.k8s.io" { format!("/{}", request.name) } else { String::new() };
        let place = if request.namespace.is_empty() { "every namespace" } else { request.namespace.as_str() };
        let line = format!("{account} may not {} {what}{name} in {place}", request.verb);
        accounts.contains(account).then_some(line)
    });
    said.collect::<BTreeSet<String>>().into_iter().collect()
}

/// The rights without which everything would have gone as it did: nothing needs them, or another right gives the same.
pub fn idle(rights: &[Right], used: &BTreeSet<Need>) -> Vec<String> {
    let mut needed: BTreeSet<usize> = BTreeSet::new();
    for need in used {
        let by: Vec<usize> = (0..rights.len()).filter(|at| rights[*at].allows(need)).collect();
        if let [only] = by.as_slice() {
            needed.insert(*only);
        }
    }
    // What the admission policy asks for is no request, so the log has none of it: `source_rights` tries it.
    let is_asked_by_policy = |right: &Right| right.group == "stator.dev" && right.verb == "hint";
    // What everybody may is for people, too: a tenant reads the policies that hold for him.
    let is_peoples = |right: &Right| right.account == EVERYBODY;
    let is_asked_for = |at: &usize| needed.contains(at) || is_asked_by_policy(&rights[*at]) || is_peoples(&rights[*at]);
    let idle = (0..rights.len()).filter(|at| !is_asked_for(at));
    idle.map(|at| rights[at].to_string()).collect()
}

/// What was allowed by none of the rights: somebody else gave it.
pub fn elsewhere(rights: &[Right], used: &BTreeSet<Need>) -> Vec<String> {
    let given = |need: &&Need| rights.iter().any(|right| right.allows(need));
    used.iter().filter(|need| !given(need)).map(ToString::to_string).collect()
}
