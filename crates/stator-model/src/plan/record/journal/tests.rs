use super::{Journal, JournalModel, JournalObject, MAX_JOURNAL_BYTES, journal_definition, merge_journals};
use crate::plan::{InventoryEntry, Record, RepositoryAddress, RepositoryOrigin, SourceIdentity};
use proptest::prelude::*;
use stator_core::dynamo::kinds::{CLAIM, GRAPH};
use stator_core::object::ObjectRef;
use std::collections::BTreeSet;

const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../crds/stator.dev_syncjournals.yaml");

fn owner(address: &str) -> SourceIdentity {
    SourceIdentity::Repository { origin: RepositoryOrigin::at_address(RepositoryAddress::parse(address).unwrap(), "") }
}

fn journal(models: &[(&str, &[ObjectRef])]) -> Journal {
    let models = models.iter().map(|(model, objects)| JournalModel {
        model: (*model).to_owned(),
        source: format!("{model}/model.yaml"),
        objects: objects.iter().map(|one| JournalObject { object: one.clone(), prune: true }).collect(),
    });
    Journal {
        name: "sync-1-0".to_owned(),
        namespace: "prod".to_owned(),
        repository: "shop".to_owned(),
        environment: "prod".to_owned(),
        owner: Some(owner("https://git.example.com/team/shop")),
        models: models.collect(),
        ..Journal::default()
    }
}

fn record(model: &str, objects: &[ObjectRef]) -> Record {
    let inventory = objects
        .iter()
        .map(|one| InventoryEntry { uid: Some("1".to_owned()), ..InventoryEntry::pending(one.clone(), true) });
    Record {
        model: model.to_owned(),
        namespace: "prod".to_owned(),
        repository: "shop".to_owned(),
        environment: "prod".to_owned(),
        owner: Some(owner("https://git.example.com/team/shop")),
        inventory: inventory.collect(),
        ..Record::default()
    }
}

/// The file is what the types say. `STATOR_BLESS=1 cargo test` writes it anew.
#[test]
fn the_definition_of_journals_is_up_to_date() {
    let mut text = "# Generated from the Rust types: STATOR_BLESS=1 cargo test\n".to_owned();
    text.push_str(&serde_saphyr::to_string(&journal_definition()).unwrap());
    if std::env::var("STATOR_BLESS").is_ok_and(|value| value == "1") {
        fs_err::write(FILE, &text).unwrap();
    }
    assert!(fs_err::read_to_string(FILE).unwrap_or_default() == text, "{FILE} is old: STATOR_BLESS=1 cargo test");
}

/// A model that has no record has one that names what the journal does; one whose record lacks an object has it named
/// beside what it knows; and one whose record names everything is as it was.
#[test]
fn a_journal_stands_in_for_the_records_that_are_not_written_yet() {
    let (graph, claim) = (GRAPH.reference("prod", "a"), CLAIM.reference("prod", "weights"));
    let left = journal(&[
        ("new", &[GRAPH.reference("prod", "new")]),
        ("grown", &[graph.clone(), claim.clone()]),
        ("done", &[GRAPH.reference("prod", "done")]),
    ]);
    let known = vec![record("grown", std::slice::from_ref(&graph)), record("done", &[GRAPH.reference("prod", "done")])];
    let (records, leftovers) = merge_journals(known.clone(), std::slice::from_ref(&left), &BTreeSet::new());

    assert_eq!(records.iter().map(|one| one.model.as_str()).collect::<Vec<_>>(), ["done", "grown", "new"]);
    assert_eq!(records[0], known[1]);
    assert!(records[1].is_stale && !records[1].is_journaled);
    let named = records[1].inventory.iter().map(|entry| (entry.object.name.as_str(), entry.uid.is_some()));
    assert_eq!(named.collect::<Vec<_>>(), [("a", true), ("weights", false)]);
    assert!(records[2].is_journaled && records[2].owner == left.owner && records[2].source == "new/model.yaml");
    assert_eq!(records[2].inventory, [InventoryEntry::pending(GRAPH.reference("prod", "new"), true)]);
    assert_eq!(leftovers[0].open_models, ["grown", "new"].map(str::to_owned).into());
}

/// What another source records stays as it is, and so does the journal, until somebody settles whose the model is.
#[test]
fn a_journal_adds_nothing_to_what_another_source_records() {
    let theirs = Record { owner: Some(owner("https://git.example.com/fork/shop")), ..record("llama", &[]) };
    let left = journal(&[("llama", &[GRAPH.reference("prod", "llama")])]);
    let (records, leftovers) = merge_journals(vec![theirs.clone()], &[left], &BTreeSet::new());
    assert_eq!(records, [theirs]);
    assert_eq!(leftovers[0].open_models, ["llama".to_owned()].into());
}

/// A record that is there and cannot be read is not replaced by what a journal says.
#[test]
fn a_journal_is_no_record_of_a_model_whose_record_cannot_be_read() {
    let left = journal(&[("llama", &[GRAPH.reference("prod", "llama")])]);
    let (records, leftovers) = merge_journals(Vec::new(), &[left], &["llama".to_owned()].into());
    assert_eq!((records.len(), leftovers[0].open_models.len()), (0, 1));
}

#[test]
fn what_is_no_journal_says_which_part_is_wrong() {
    let object = journal(&[("llama", &[GRAPH.reference("prod", "llama")])]).to_object().unwrap();
    let broken = object.map(|mut value| {
        value["spec"]["models"][0]["objects"][0]["prune"] = "maybe".into();
        value
    });
    insta::assert_snapshot!(Journal::from_object(&broken.unwrap()).unwrap_err(), @r#"SyncJournal prod/sync-1-0: `spec` cannot be read: invalid type: string "maybe", expected a boolean; use the version of stator that wrote it, or delete it once no sync is running"#);
}

fn any_journal() -> impl Strategy<Value = Journal> {
    let object = (0..2_usize, "[a-z]{1,60}", any::<bool>(), "prod|other").prop_map(|(kind, name, prune, namespace)| {
        JournalObject { object: ObjectRef { namespace, ..[CLAIM, GRAPH][kind].reference("prod", &name) }, prune }
    });
    let model = ("[a-z]{1,60}", "[a-z/]{1,200}", prop::collection::vec(object, 1..5))
        .prop_map(|(model, source, objects)| JournalModel { model, source, objects });
    (prop::collection::vec(model, 0..6), any::<bool>(), prop::option::of("[a-z]{1,9}")).prop_map(
        |(models, has_owner, folder)| {
            let head = journal(&[]);
            Journal { models, folder, owner: head.owner.clone().filter(|_| has_owner), ..head }
        },
    )
}

proptest! {
    #[test]
    fn what_is_written_is_read_back(journal in any_journal()) {
        prop_assert_eq!(Journal::from_object(&journal.to_object().unwrap()).unwrap(), journal);
    }

    /// Every part holds what a server takes, and together they hold everything, once and in order.
    #[test]
    fn parts_hold_everything_and_none_is_too_large(journal in any_journal(), times in 1..400_usize) {
        let all: Vec<JournalModel> =
            journal.models.iter().cycle().take(journal.models.len() * times).cloned().collect();
        let parts = journal.split(all.clone());
        for part in &parts {
            let size = serde_json::to_vec(part.to_object().unwrap().spec()).unwrap().len();
            prop_assert!(part.models.len() == 1 || size <= MAX_JOURNAL_BYTES + 1024, "{size} bytes");
        }
        let names: BTreeSet<&String> = parts.iter().map(|part| &part.name).collect();
        prop_assert_eq!(names.len(), parts.len());
        let together: Vec<JournalModel> = parts.into_iter().flat_map(|part| part.models).collect();
        prop_assert_eq!(together, all);
    }
}
