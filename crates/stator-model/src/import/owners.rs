//! Which models an object is of: those that use it, of these the nearest, and where nobody uses it the nearest of all.

use super::carried::{self, NamedTexts};
use super::classify;
use super::documents::ManifestDocument;
use super::download_job::DownloadJob;
use super::draft::ImportDraft;
use serde_json::Value;
use stator_core::dynamo::kinds;
use stator_core::finding::Finding;
use std::cmp::Reverse;
use std::collections::{BTreeSet, HashMap};

/// Models on their way, and what their graphs name: with ten thousand of both, each object is not held against each graph.
pub struct ObjectOwners {
    /// The models.
    pub drafts: Vec<ImportDraft>,
    /// The models whose graphs have a text, by the text.
    by_text: HashMap<String, Vec<usize>>,
    /// The models whose graphs refer to something, by its name.
    by_reference: HashMap<String, Vec<usize>>,
    /// The models of a name.
    by_name: HashMap<String, Vec<usize>>,
    /// The models that have an object, by its name.
    by_object: HashMap<String, Vec<usize>>,
    /// The objects of a kind and name, which several models may each have their own of.
    objects: HashMap<(String, String), Vec<ManifestDocument>>,
    /// How near the nearest of them is to each model.
    nearest: HashMap<(String, String), Vec<usize>>,
    /// Documents that are no model's.
    left_out: Vec<Value>,
}

fn key_of(document: &ManifestDocument) -> (String, String) {
    (classify::kind_of(&document.value).to_owned(), classify::name_of(&document.value).to_owned())
}

impl ObjectOwners {
    pub fn of(drafts: Vec<ImportDraft>, left_out: Vec<Value>) -> Self {
        let (mut by_text, mut by_reference, mut by_name) = (HashMap::new(), HashMap::new(), HashMap::new());
        let add = |index: &mut HashMap<String, Vec<usize>>, text: &str, at: usize| {
            index.entry(text.to_owned()).or_default().push(at);
        };
        for (at, draft) in drafts.iter().enumerate() {
            let texts = NamedTexts::of(&draft.root.value);
            texts.all.iter().for_each(|text| add(&mut by_text, text, at));
            texts.references.iter().for_each(|text| add(&mut by_reference, text, at));
            add(&mut by_name, draft.model.metadata.name.as_str(), at);
        }
        let (by_object, objects, nearest) = Default::default();
        Self { drafts, by_text, by_reference, by_name, by_object, objects, nearest, left_out }
    }

    /// Says which objects there are.
    pub fn name_objects<'a>(&mut self, documents: impl Iterator<Item = &'a ManifestDocument>) {
        for document in documents {
            self.objects.entry(key_of(document)).or_default().push(document.clone());
        }
    }

    /// The models that use an object, the nearest first: its graph names it, or it names the graph or a part of it, or both name
    /// a third that the object stands for (a ComputeDomain's template of claims).
    fn users(&self, document: &ManifestDocument) -> Vec<usize> {
        let mut found: BTreeSet<usize> = BTreeSet::new();
        let mut add =
            |index: &HashMap<String, Vec<usize>>, text: &str| found.extend(index.get(text).into_iter().flatten());
        add(&self.by_text, classify::name_of(&document.value));
        let texts = NamedTexts::of(&document.value);
        for text in &texts.all {
            add(&self.by_name, text);
            text.match_indices('-').filter_map(|(end, _)| text.get(..end)).for_each(|part| add(&self.by_name, part));
        }
        texts.names.iter().for_each(|name| add(&self.by_reference, name));
        self.nearest_first(document, found)
    }

    /// The models among some that may be in the document's namespace, the nearest first.
    fn nearest_first(&self, document: &ManifestDocument, of: impl IntoIterator<Item = usize>) -> Vec<usize> {
        let rank = |at: usize| {
            let draft = self.drafts.get(at).filter(|draft| draft.is_near(document))?;
            Some((Reverse((draft.root.closeness_to(document), draft.shares_namespace(document))), at))
        };
        let mut ranked: Vec<_> = of.into_iter().filter_map(rank).collect();
        ranked.sort_unstable();
        ranked.into_iter().map(|(_, at)| at).collect()
    }

    fn keep(&mut self, at: usize, document: &ManifestDocument) {
        self.by_object.entry(classify::name_of(&document.value).to_owned()).or_default().push(at);
    }

    /// Gives a document to the nearest model that takes it, and to the variants of that model that are as near. Whether there is
    /// one.
    pub fn take(
        &mut self,
        document: &ManifestDocument,
        take_into: impl Fn(&mut ImportDraft, &ManifestDocument) -> bool,
    ) -> bool {
        let mut owner = None;
        for at in self.users(document) {
            if self.drafts.get_mut(at).is_some_and(|draft| take_into(draft, document)) {
                owner = Some(at);
                break;
            }
        }
        let Some(owner) = owner else { return false };
        self.keep(owner, document);
        for at in self.variants_beside(owner, document) {
            if self.drafts.get_mut(at).is_some_and(|draft| take_into(draft, document)) {
                self.keep(at, document);
            }
        }
        true
    }

    /// The other variants of a model that are as near to a document.
    fn variants_beside(&self, owner: usize, document: &ManifestDocument) -> Vec<usize> {
        let Some(first) = self.drafts.get(owner) else { return Vec::new() };
        let is_beside = |at: &usize| {
            self.drafts.get(*at).is_some_and(|draft| {
                draft.is_near(document) && draft.root.closeness_to(document) == first.root.closeness_to(document)
            })
        };
        let all = self.by_name.get(first.model.metadata.name.as_str()).into_iter().flatten().copied();
        all.filter(|at| *at != owner).filter(is_beside).collect()
    }

    /// Reads the names of models from a file of their engine.
    pub fn read_models(&mut self, document: &ManifestDocument) {
        for at in self.users(document) {
            if let Some(draft) = self.drafts.get_mut(at) {
                draft.read_model(document);
            }
        }
    }

    /// Gives an object to the model that uses it, else to the nearest there is.
    pub fn carry(&mut self, document: &ManifestDocument, findings: &mut Vec<Finding>) {
        let owner = if classify::kind_of(&document.value) == kinds::JOB.kind {
            let owner = self.sharing_claims(document).first().copied();
            if owner.is_none() {
                self.left_out.push(document.value.clone());
                findings.push(classify::unrelated_job_finding(document));
                return;
            }
            owner
        } else {
            let first = self.users(document).first().copied();
            first.or_else(|| self.nearest_first(document, 0..self.drafts.len()).first().copied())
        };
        match owner {
            Some(owner) => self.carry_with(owner, document, findings),
            None => findings.push(classify::lonely_object_finding(document)),
        }
    }

    fn carry_with(&mut self, owner: usize, document: &ManifestDocument, findings: &mut Vec<Finding>) {
        let mut is_carried = false;
        for at in std::iter::once(owner).chain(self.variants_beside(owner, document)) {
            match self.drafts.get_mut(at).map_or(Ok(()), |draft| draft.carry(document)) {
                Ok(()) => {
                    self.keep(at, document);
                    is_carried = true;
                }
                Err(finding) => findings.push(*finding),
            }
        }
        if is_carried {
            self.note_sharing("spec.manifests", document);
        }
    }

    /// The models with a claim that a Job mounts, the nearest first.
    fn sharing_claims(&self, job: &ManifestDocument) -> Vec<usize> {
        let of_claim = |claim: &str| {
            let indexes = [&self.by_text, &self.by_object];
            indexes.into_iter().filter_map(|index| index.get(claim)).flatten().copied().collect::<Vec<_>>()
        };
        let all: BTreeSet<usize> = carried::claims_of(&job.value).flat_map(of_claim).collect();
        self.nearest_first(job, all)
    }

    /// Gives a download to the models that are served from it. Models that share weights share the Job; where `weights` cannot
    /// say it, it stays a Job of the first.
    pub fn take_download(&mut self, document: &ManifestDocument, job: &DownloadJob, findings: &mut Vec<Finding>) {
        let serves = |at: &usize| self.drafts.get(*at).is_some_and(|draft| job.serves(&draft.texts()));
        let mut served: Vec<usize> = self.sharing_claims(document).into_iter().filter(serves).collect();
        if served.is_empty() {
            served = self.nearest_first(document, 0..self.drafts.len()).into_iter().filter(serves).collect();
        }
        let Some(first) = served.first().copied() else {
            self.left_out.push(document.value.clone());
            findings.push(classify::unused_download_finding(document, job));
            return;
        };
        let mut takes = |at: &usize| self.drafts.get_mut(*at).is_some_and(|draft| draft.take_download(document, job));
        if served.iter().filter(|at| takes(at)).count() == 0 {
            self.carry_with(first, document, findings);
        }
    }

    /// Notes with the owner of an object that other models use it too, or that none does.
    pub fn note_sharing(&mut self, path: &'static str, document: &ManifestDocument) {
        let name = classify::name_of(&document.value);
        let kept = self.by_object.get(name).into_iter().flatten().copied();
        let has = |at: &usize| self.drafts.get(*at).is_some_and(|draft| draft.has(document));
        let Some(owner) = self.nearest_first(document, kept.filter(has)).first().copied() else { return };
        let users: Vec<usize> = self.users(document).into_iter().filter(|at| self.is_nearest(document, *at)).collect();
        let model = |at: &usize| self.drafts.get(*at).map(|draft| draft.model.metadata.name.to_string());
        let own = model(&owner);
        let others: BTreeSet<String> =
            users.iter().filter_map(model).filter(|other| Some(other) != own.as_ref()).collect();
        let is_others =
            |draft: &ImportDraft| draft.is_near(document) && Some(draft.model.metadata.name.as_str()) != own.as_deref();
        let object = format!("{} `{name}`", classify::kind_of(&document.value));
        let note = if !others.is_empty() {
            let others = others.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
            format!("{object} is kept with this model, and used by {others} too")
        } else if users.is_empty() && self.drafts.iter().any(is_others) {
            format!("{object} is kept with this model: none of the graphs names it")
        } else {
            return;
        };
        if let Some(draft) = self.drafts.get_mut(owner) {
            draft.shared.extend((!others.is_empty()).then(|| name.to_owned()));
            draft.notes.push((path, note));
        }
    }

    /// Whether no other object of its kind and name is nearer to a model.
    fn is_nearest(&mut self, document: &ManifestDocument, at: usize) -> bool {
        let key = key_of(document);
        let (objects, drafts) = (&self.objects, &self.drafts);
        let nearest = self.nearest.entry(key).or_insert_with_key(|key| {
            let own = objects.get(key).map(Vec::as_slice).unwrap_or_default();
            let of_draft =
                |draft: &ImportDraft| own.iter().map(|one| draft.root.closeness_to(one)).max().unwrap_or_default();
            if own.len() > 1 { drafts.iter().map(of_draft).collect() } else { Vec::new() }
        });
        let own = self.drafts.get(at).map(|draft| draft.root.closeness_to(document));
        nearest.get(at).is_none_or(|nearest| own >= Some(*nearest))
    }

    /// Every text of the documents that are no model's: they may name what models have.
    pub fn texts_of_left_out(&self) -> BTreeSet<String> {
        let mut texts = BTreeSet::new();
        for value in &self.left_out {
            collect_texts(value, &mut texts);
        }
        texts
    }
}

fn collect_texts(value: &Value, texts: &mut BTreeSet<String>) {
    match value {
        Value::String(text) => {
            texts.insert(text.clone());
        }
        Value::Object(map) => map.values().for_each(|below| collect_texts(below, texts)),
        Value::Array(items) => items.iter().for_each(|below| collect_texts(below, texts)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}
