//! One model, held to the policies that bind its source.

use super::binding::BoundPolicies;
use super::compiled::CompiledFleetPolicy;
use super::pod_security::{self, PodList, PodSecurityLevel};
use super::pods::{Pod, find_pods};
use super::quotas::{self, JudgedShare, Share};
use super::references::{References, describe_size, has_digest, image_repository};
use super::rules;
use crate::intent::Intent;
use crate::intent::policy::JudgedModel;
use crate::present::escape;
use crate::render::RenderedModel;
use crate::render::field_location::locate_field;
use serde_json::Value;
use stator_core::dynamo::{gpus, kinds};
use stator_core::finding::{self, Finding, Rule};
use stator_core::object::{FieldPath, Object};

/// How an administrator is asked for more.
const ASK: &str = "or ask an administrator to allow it in the policy; `stator explain policy` shows what it allows";

impl BoundPolicies {
    /// What the policies say of a model by itself, and what it takes of their quotas. `intent` is what it was rendered from.
    pub fn judge(&self, environment: &str, intent: &Intent, model: &RenderedModel) -> JudgedShare {
        let mut findings = Vec::new();
        if self.policies.is_empty() {
            return JudgedShare { findings, share: None };
        }
        // An error of its own keeps it from being synced anyway.
        for object in model.objects.iter().map(|desired| &desired.object) {
            ObjectJudge::new(intent, object, &mut findings).judge(&self.policies);
        }
        for policy in &self.policies {
            judge_rules(policy, environment, intent, model, &mut findings);
        }
        let has_quotas = self.policies.iter().any(|policy| policy.document.spec.quotas.is_some());
        let share = has_quotas.then(|| Box::new(Share::of(intent, model)));
        JudgedShare { findings, share }
    }

    /// What the policies say of each model, given all models of a source in their order.
    pub fn judge_together(&self, mut all: Vec<JudgedShare>) -> Vec<Vec<Finding>> {
        for policy in &self.policies {
            quotas::judge(policy, &mut all);
        }
        let findings = all.into_iter().map(|mut one| {
            finding::sort_and_dedup(&mut one.findings);
            one.findings
        });
        findings.collect()
    }
}

/// The policy's expressions, as a repository's own are judged.
fn judge_rules(
    policy: &CompiledFleetPolicy,
    environment: &str,
    intent: &Intent,
    model: &RenderedModel,
    findings: &mut Vec<Finding>,
) {
    let gpus = model.objects.iter().map(|desired| gpus::gpu_use(&desired.object).total()).fold(0, u64::saturating_add);
    let objects = model.objects.iter().map(|desired| desired.object.value()).collect();
    for found in policy.rules.evaluate(&JudgedModel { intent, gpus, objects }, environment) {
        let message =
            format!("fleet {}", found.message.replacen("policy `", &format!("policy `{}`, rule `", policy.name), 1));
        let help = if found.rule == crate::intent::rules::POLICY_FAILED {
            "Ask an administrator to correct the expression; test for fields that may be missing with `has(…)`."
                .to_owned()
        } else {
            found.help
        };
        findings.push(Finding { rule: rules::EXPRESSION, message, help, ..found });
    }
}

struct ObjectJudge<'a> {
    intent: &'a Intent,
    object: &'a Object,
    findings: &'a mut Vec<Finding>,
}

impl<'a> ObjectJudge<'a> {
    fn new(intent: &'a Intent, object: &'a Object, findings: &'a mut Vec<Finding>) -> Self {
        Self { intent, object, findings }
    }

    fn judge<'p>(mut self, policies: impl IntoIterator<Item = &'p std::sync::Arc<CompiledFleetPolicy>>) {
        let pods = find_pods(self.object);
        let references = References::of(self.object);
        for policy in policies {
            self.judge_kind(policy);
            self.judge_pods(policy, &pods);
            self.judge_references(policy, &references);
        }
    }

    /// Tells of a field: the policy, the object, and what is allowed.
    fn refuse(&mut self, policy: &CompiledFleetPolicy, rule: Rule, path: &FieldPath, found: &str, help: String) {
        let location = locate_field(self.intent, self.object, path);
        let (kind, name) = (self.object.kind(), self.object.name());
        let field = if path.0.is_empty() { String::new() } else { format!(": `{}`", escape::line(&path.to_string())) };
        let message = format!("fleet policy `{}`: {kind} {name}{field} {found}", policy.name);
        self.findings.push(Finding::error(rule, location, message, help));
    }

    fn judge_kind(&mut self, policy: &CompiledFleetPolicy) {
        let Some(allowed) = &policy.document.spec.kinds else { return };
        let is_dynamo = self.object.reference().group() == kinds::GRAPH.group;
        if is_dynamo || allowed.iter().any(|kind| kind.as_str() == self.object.kind()) {
            return;
        }
        let names: Vec<String> = allowed.iter().map(|kind| format!("`{kind}`")).collect();
        let listed = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
        let found = format!("is of a kind that is not allowed; allowed beside Dynamo's: {listed}");
        self.refuse(policy, rules::KIND, &FieldPath::root(), &found, format!("Remove it from the model, {ASK}."));
    }

    fn judge_pods(&mut self, policy: &CompiledFleetPolicy, pods: &[Pod<'_>]) {
        let level = policy.document.spec.pods.level;
        for pod in pods {
            for (path, volume) in pod.listed_volumes() {
                for kind in
                    volume.as_object().into_iter().flatten().map(|(kind, _)| kind).filter(|kind| *kind != "name")
                {
                    self.judge_name(policy, PodList::Volumes, &path.field(kind), kind);
                }
            }
            for (path, metadata) in &pod.metadata {
                let labels = metadata.get("labels").and_then(Value::as_object);
                for label in labels.into_iter().flatten().map(|(label, _)| label) {
                    self.judge_name(policy, PodList::Labels, &path.field("labels").field(label), label);
                }
            }
            for violation in pod_security::judge_pod(pod, level) {
                if policy.excepts(&violation) {
                    continue;
                }
                let found = escape::line(&violation.found);
                let found = format!("is {found}; allowed at level `{level}`: {}", violation.allowed);
                let field = violation.field.name();
                let help = format!(
                    "Change `{field}` of the pod, or ask an administrator for an exception for it; `stator explain policy` \
                     shows what is allowed."
                );
                self.refuse(policy, rules::POD, &violation.path, &found, help);
            }
        }
        if level == PodSecurityLevel::Restricted && self.object.kind() == kinds::REQUEST.kind {
            let found = "lets Dynamo's operator create pods that are not known yet and that do not meet level \
                         `restricted`";
            let help = "Write `serving` instead of `sla`, or lock the result with `stator lock`.".to_owned();
            self.refuse(policy, rules::POD, &FieldPath::root(), found, help);
        }
    }

    /// Holds what a pod names to the policy's list.
    fn judge_name(&mut self, policy: &CompiledFleetPolicy, list: PodList, path: &FieldPath, name: &str) {
        let Some(allowed) = policy.allowed(list).filter(|allowed| !allowed.is_match(name)) else { return };
        let what = list.describe();
        let found = match name {
            "" => format!("names every {what}; allowed: {}", allowed.describe()),
            name => format!("names the {what} `{}`; allowed: {}", escape::line(name), allowed.describe()),
        };
        let rule = if list == PodList::ServiceAccounts { rules::SERVICE_ACCOUNT } else { rules::POD };
        self.refuse(policy, rule, path, &found, format!("Name another {what}, {ASK}."));
    }

    fn judge_references(&mut self, policy: &CompiledFleetPolicy, references: &References) {
        for (path, image) in &references.images {
            if let Some(allowed) = policy.allowed(PodList::Images)
                && !allowed.is_match(&image_repository(image))
            {
                let found = format!("is `{}`; allowed: {}", escape::line(image), allowed.describe());
                self.refuse(policy, rules::IMAGE, path, &found, format!("Take an image from there, {ASK}."));
            }
            let needs_digest = policy.document.spec.images.as_ref().is_some_and(|images| images.require_digest);
            if needs_digest && !has_digest(image) {
                let found = format!("is `{}`, without a digest; allowed: `IMAGE@sha256:…`", escape::line(image));
                let help = "Add the digest that the registry shows for the tag.".to_owned();
                self.refuse(policy, rules::IMAGE, path, &found, help);
            }
        }
        for (list, path, name) in &references.named {
            self.judge_name(policy, *list, path, name);
        }
        if let Some(allowed) = &policy.secrets {
            for (path, name) in references.secrets.iter().filter(|(_, name)| !allowed.is_match(name)) {
                let found = format!("names the Secret `{}`; allowed: {}", escape::line(name), allowed.describe());
                self.refuse(policy, rules::SECRET, path, &found, format!("Name another Secret, {ASK}."));
            }
        }
        if let Some(most) = policy.claim_size {
            for (path, size) in references.claims.iter().filter(|(_, size)| *size > most) {
                let found = format!("is {}; allowed: at most {}", describe_size(*size), describe_size(most));
                self.refuse(policy, rules::CLAIM_SIZE, path, &found, format!("Ask for less, {ASK}."));
            }
        }
    }
}
