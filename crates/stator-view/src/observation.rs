//! What was seen at one moment, with what every answer needs of it made once.

use crate::facts::{FleetFacts, ModelFacts, SourceFacts};
use crate::link_template::LinkTemplate;
use crate::models::filter::search_words;
use crate::models::list::select;
use crate::models::row::IndexedRow;
use crate::models::{ModelQuery, ModelRow, ModelSelection};
use crate::problem::{ProblemDetails, ProblemKind};
use crate::reader::{FleetReader, ModelDetails, NamespaceSet, visible_facts};
use jiff::Timestamp;
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

/// What stands in a path for the namespace of a folder's source, which has none.
pub(crate) const NO_NAMESPACE: &str = "-";

/// Everything that pages and API answer from.
#[derive(Clone, Debug)]
pub struct FleetObservation {
    /// Goes up with every change.
    pub version: u64,
    /// When this was last found to be so.
    pub as_of: Timestamp,
    /// What was seen, as far as whoever looks may see it.
    pub facts: FleetFacts,
    /// Whoever looks.
    pub reader: FleetReader,
    rows: Arc<[Arc<IndexedRow>]>,
    namespaces: Arc<FleetNamespaces>,
}

/// The namespaces that something is in.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FleetNamespaces {
    /// Those of sources.
    pub sources: BTreeSet<String>,
    /// Those of models.
    pub models: BTreeSet<String>,
}

/// One model among the facts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FoundModel<'a> {
    /// The source that it comes from.
    pub source: &'a SourceFacts,
    /// What is known of it.
    pub model: &'a ModelFacts,
    /// Its row.
    pub row: &'a ModelRow,
    /// What whoever looks may see of it.
    pub details: ModelDetails,
    /// Links to other tools.
    pub links: &'a [LinkTemplate],
}

/// What filters of places can be set to, as far as models use it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FilterChoices {
    /// Namespaces.
    pub namespaces: BTreeSet<String>,
    /// Sources.
    pub sources: BTreeSet<String>,
    /// SKUs of GPUs.
    pub gpus: BTreeSet<String>,
}

/// A source as it was, with the rows of its models.
type KnownSource<'a> = (&'a SourceFacts, Vec<&'a Arc<IndexedRow>>);

/// The rows of a source's models; of those that are as they were, the rows that they had.
fn rows_of(source: &SourceFacts, before: Option<&KnownSource<'_>>) -> Vec<Arc<IndexedRow>> {
    let of_name: HashMap<&str, (&ModelFacts, &Arc<IndexedRow>)> = before
        .into_iter()
        .flat_map(|(known, rows)| known.models.iter().zip(rows))
        .map(|(model, row)| (model.status.name.as_str(), (model, *row)))
        .collect();
    let row = |model: &ModelFacts| match of_name.get(model.status.name.as_str()) {
        Some((known, row)) if *known == model => Arc::clone(row),
        Some(_) | None => {
            let row = ModelRow::new(source, model);
            Arc::new(IndexedRow { words: search_words(&row), row })
        }
    };
    source.models.iter().map(row).collect()
}

impl FleetObservation {
    /// Of what was seen at a moment.
    pub fn new(version: u64, as_of: Timestamp, facts: FleetFacts) -> Self {
        Self::after(&[], version, as_of, facts)
    }

    /// Of what was seen later: only rows of models that are different are made.
    #[must_use]
    pub fn next(&self, version: u64, as_of: Timestamp, facts: FleetFacts) -> Self {
        let mut rows = self.rows.iter();
        let known: Vec<KnownSource<'_>> = self
            .facts
            .sources
            .iter()
            .map(|source| (&**source, rows.by_ref().take(source.models.len()).collect()))
            .collect();
        Self::after(&known, version, as_of, facts)
    }

    fn after(known: &[KnownSource<'_>], version: u64, as_of: Timestamp, facts: FleetFacts) -> Self {
        let rows = facts.sources.iter().flat_map(|source| {
            let before = known.iter().find(|(one, _)| (&one.namespace, &one.name) == (&source.namespace, &source.name));
            rows_of(source, before)
        });
        let rows = rows.collect();
        let mut namespaces = FleetNamespaces::default();
        for source in &facts.sources {
            namespaces.sources.insert(source.namespace.clone());
            for model in source.models.iter() {
                if !namespaces.models.contains(&model.status.namespace) {
                    namespaces.models.insert(model.status.namespace.clone());
                }
            }
        }
        Self { version, as_of, facts, reader: FleetReader::EVERYTHING, rows, namespaces: Arc::new(namespaces) }
    }

    /// The same, as far as a reader may see it: what they may not see is not there, and not counted. Its version moves with what they see, and when a
    /// source is taken down, whosever it was.
    #[must_use]
    pub fn shown_to(&self, reader: FleetReader) -> Self {
        if (&reader.sources, &reader.models) == (&NamespaceSet::All, &NamespaceSet::All) {
            return Self { reader, ..self.clone() };
        }
        let facts = visible_facts(&self.facts, &reader);
        let versions = facts.sources.iter().map(|source| source.changed_in);
        let version = versions.chain([facts.removed_in]).max().unwrap_or_default();
        Self { reader, ..Self::new(version, self.as_of, facts) }
    }

    /// The namespaces that something is in.
    pub fn namespaces(&self) -> &FleetNamespaces {
        &self.namespaces
    }

    /// The sources that may be seen themselves, and not only their models.
    pub fn listed_sources(&self) -> impl Iterator<Item = &SourceFacts> {
        self.facts.sources.iter().map(|source| &**source).filter(|source| !source.is_withheld)
    }

    /// The source of a namespace and a name, as paths have them: `-` stands for no namespace.
    ///
    /// # Errors
    /// Where there is none.
    pub fn source(&self, namespace: &str, name: &str) -> Result<&SourceFacts, ProblemDetails> {
        let namespace = if namespace == NO_NAMESPACE { "" } else { namespace };
        let mut sources = self.listed_sources();
        let found = sources.find(|one| one.namespace == namespace && one.name == name);
        found.ok_or_else(|| ProblemDetails::new(ProblemKind::NotFound))
    }

    /// The same, found to be so at a later moment.
    #[must_use]
    pub fn seen_again(&self, as_of: Timestamp) -> Self {
        Self { as_of, ..self.clone() }
    }

    /// One page of the models.
    ///
    /// # Errors
    /// Where the page is of another list.
    pub fn models(&self, query: &ModelQuery) -> Result<ModelSelection<'_>, ProblemDetails> {
        select(&self.rows, query)
    }

    /// Every row, in the order of sources and names.
    pub fn rows(&self) -> impl Iterator<Item = &ModelRow> {
        self.rows.iter().map(|one| &one.row)
    }

    /// The model of a namespace and a name.
    ///
    /// # Errors
    /// Where there is none.
    pub fn model(&self, namespace: &str, name: &str) -> Result<FoundModel<'_>, ProblemDetails> {
        let models =
            self.facts.sources.iter().flat_map(|source| source.models.iter().map(move |model| (source, model)));
        let mut rows = models.zip(self.rows());
        let found = rows.find(|(_, row)| row.namespace == namespace && row.name == name);
        let ((source, model), row) = found.ok_or_else(|| ProblemDetails::new(ProblemKind::NotFound))?;
        Ok(FoundModel { source, model, row, details: self.reader.details, links: &self.facts.links })
    }

    /// What is to be said of the whole: which sources are not known as they are now.
    pub fn notices(&self) -> Vec<String> {
        let unread = self.listed_sources().filter_map(|source| {
            let reason = source.unread.as_ref()?;
            let shown =
                if source.models.is_empty() { "its models are unknown" } else { "models are shown as last seen" };
            Some(format!("{}: {shown}: {reason}", source.label()))
        });
        let is_empty = self.facts.sources.is_empty();
        let nothing = is_empty.then(|| match (&self.reader.sources, &self.reader.models) {
            (NamespaceSet::All, NamespaceSet::All) => "no source has been read yet".to_owned(),
            (NamespaceSet::All | NamespaceSet::These(_), NamespaceSet::All | NamespaceSet::These(_)) => {
                "there are no sources or models that you may list".to_owned()
            }
        });
        unread.chain(nothing).collect()
    }

    /// Whether no model is known yet because sources are still being read.
    pub fn is_loading(&self) -> bool {
        let is_unread = |source: &SourceFacts| source.unread.is_some() && source.models.is_empty();
        self.rows.is_empty() && (self.facts.sources.is_empty() || self.listed_sources().any(is_unread))
    }

    /// What filters can be set to.
    pub fn choices(&self) -> FilterChoices {
        let mut choices = FilterChoices::default();
        for row in self.rows() {
            choices.namespaces.insert(row.namespace.clone());
            choices.sources.insert(row.source.clone());
            choices.gpus.extend(row.gpus.iter().map(|one| one.sku.clone()));
        }
        choices
    }
}
