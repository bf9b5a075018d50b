//! An embedded cluster that an earlier version synced into, and a plan that it saved.

use super::{BEFORE, Place, ageless, copy, marks, untouched};
use crate::workbench::Output;
use insta::assert_snapshot;

impl Place {
    /// Runs stator on the embedded cluster, which [`Self::cluster`] copied.
    fn on(&self, cluster: &str, args: &[&str]) -> Output {
        self.bench.run(args.iter().chain(&["--cluster", cluster]))
    }
}

/// What an earlier version synced says no owner: by its names it is this repository's, and becomes so with one line said.
/// Nothing but a label is written to an object.
#[test]
fn a_cluster_is_taken_over_with_one_line_said() {
    let place = Place::of(&BEFORE);
    let cluster = place.cluster();
    let plan = place.on(&cluster, &["plan", "-e", "prod", "-o", "json"]).success().json();
    let changes = plan["changes"].as_array().unwrap().iter().filter(|change| change["action"] != "keep");
    for change in changes.clone() {
        assert_eq!(change["action"], "update", "{change:#}");
        assert_eq!(change["disruption"], "none", "{change:#}");
        assert_eq!(change["fields"].as_array().unwrap().len(), 1, "{change:#}");
        assert_eq!(change["fields"][0]["path"], "metadata.labels[\"stator.dev/owner-id\"]", "{change:#}");
    }
    assert_eq!(changes.count(), 7);
    let said = place.on(&cluster, &["sync", "-e", "prod", "--yes"]).success();
    assert_snapshot!(said.stderr.lines().filter(|line| line.contains("taken-over")).collect::<String>(), @"warning[plan/taken-over]: taking over models assistant, chat, search, trial: an earlier stator synced these names without recording their source  = rule: https://stator.dev/docs/rules#plan/taken-over");
    let graph = fs_err::read_to_string(place.beside("cluster/models/dynamographdeployments/assistant.yaml")).unwrap();
    assert!(graph.contains("generation: 1\n") && graph.contains("stator.dev/owner-id: "), "{graph}");
    let again = place.on(&cluster, &["sync", "-e", "prod", "--yes"]).success();
    assert!(again.stdout.contains(", 0 writes."), "{again}");
}

impl Place {
    /// Takes over what an earlier version synced, and prunes nothing of it.
    fn taken_over(&self) -> String {
        let cluster = self.cluster();
        for environment in ["prod", "staging"] {
            self.on(&cluster, &["sync", "-e", environment, "--yes", "--prune=false"]).success();
        }
        cluster
    }
}

/// What is as declared is not written, not the objects and not the records.
#[test]
fn a_cluster_has_nothing_to_change() {
    let place = Place::of(&BEFORE);
    let cluster = place.taken_over();
    let before = marks(&place.beside("cluster"));
    assert_snapshot!(place.on(&cluster, &["plan", "-e", "prod", "--exit-code", "--verbose"]).success().result(), @"
    fleet / prod at 6ef0783 against live

    assistant  models/assistant/model.yaml
      = keep DynamoGraphDeployment models/assistant   GPUs 4 h100_sxm
      = keep DynamoModel models/assistant-sql
      = keep DynamoModel models/assistant-summarise

    chat  models/chat/model.yaml
      = keep PersistentVolumeClaim models/weights
      = keep DynamoGraphDeployment models/chat   GPUs 3 h200_sxm

    notes  
      = keep PersistentVolumeClaim models/notes
          · git no longer has it; it is kept because it holds data: delete it by hand

    search  models/search/model.yaml
      = keep DynamoGraphDeployment models/search   GPUs 1 h200_sxm

    trial  models/trial/model.yaml
      = keep DynamoGraphDeploymentRequest models/trial-db25c9ca

    No changes: 7 objects of 5 models are in the desired state; 1 is not changed, --verbose shows why.
    ");
    assert_snapshot!(place.on(&cluster, &["plan", "-e", "staging", "--prune=false", "--exit-code"]).success().result(), @"
    fleet / staging at 6ef0783 against live

    No changes: 2 objects of 2 models are in the desired state; 2 are not changed, --verbose shows why.
    ");
    for environment in [&["-e", "prod"][..], &["-e", "staging", "--prune=false"]] {
        place.on(&cluster, &[&["plan", "-o", "diff", "--exit-code"], environment].concat()).success();
        let sync = place.on(&cluster, &[&["sync", "--yes", "--wait"], environment].concat()).success();
        assert!(sync.stdout.contains(", 0 writes."), "{sync}");
        untouched(&place.beside("cluster"), &before);
    }
}

/// The records are read whole: health, inventory, history, and those of what git no longer has.
#[test]
fn records_tell_what_was_done() {
    let place = Place::of(&BEFORE);
    let cluster = place.cluster();
    let said = |args: &[&str]| ageless(&place.on(&cluster, args).success().stdout);
    assert_snapshot!(said(&["status", "-e", "prod", "-o", "wide"]), @"
    NAME  SYNC  HEALTH  GPUS  REVISION  AGE  NAMESPACE  KIND  SOURCE  LAST SYNC  MESSAGE
    assistant  OutOfSync  Healthy  4 h100_sxm  5b1eec6  [AGE]  models  DynamoGraphDeployment  models/assistant/model.yaml  Succeeded [AGE] ago  3 of 3 objects differ from git
    chat  OutOfSync  Healthy  3 h200_sxm  5b1eec6  [AGE]  models  DynamoGraphDeployment  models/chat/model.yaml  Succeeded [AGE] ago  2 of 2 objects differ from git
    notes  Synced  Healthy  0  -  -  models  -  -  -  bound
    search  OutOfSync  Healthy  1 h200_sxm  6ef0783  [AGE]  models  DynamoGraphDeployment  models/search/model.yaml  Succeeded [AGE] ago  1 of 1 objects differ from git
    trial  OutOfSync  Healthy  0  5b1eec6  [AGE]  models  DynamoGraphDeploymentRequest  models/trial/model.yaml  Succeeded [AGE] ago  1 of 1 objects differ from git
    ");
    assert_snapshot!(said(&["history", "search", "-e", "prod"]), @"
    2026-11-22T11:16:54Z  Succeeded  6ef0783
      create DynamoGraphDeployment models/search (none)
      delete DynamoGraphDeploymentRequest models/search-0bb8540e (delete)
    2026-11-22T11:16:49Z  Succeeded  5b1eec6
      create DynamoGraphDeploymentRequest models/search-0bb8540e (none)
    ");
    assert_snapshot!(said(&["describe", "assistant", "-e", "prod"]), @"
    Name:  assistant
    Namespace: models
    Source:  models/assistant/model.yaml
    Revision:  5b1eec6
    Sync:  OutOfSync
    Health:  Healthy
    GPUs:  4 h100_sxm
    Created:  [AGE] ago (2026-11-22T11:16:48Z)
    Last sync: Succeeded [AGE] ago
    Message:  3 of 3 objects differ from git

    OBJECT  ACTION  HEALTH  MESSAGE
    DynamoGraphDeployment models/assistant  update  Healthy  all components are ready
    DynamoModel models/assistant-sql  update  Healthy  loaded on 3 of 3 endpoints, served
    DynamoModel models/assistant-summarise  update  Healthy  loaded on 3 of 3 endpoints, served

    CONDITION  STATUS  REASON  SINCE  MESSAGE
    Ready  True  Healthy  2026-11-22T11:16:51Z  loaded on 3 of 3 endpoints
    Reconciling  False  Healthy  2026-11-22T11:16:51Z  -
    Stalled  False  Healthy  2026-11-22T11:16:48Z  -

    APPLIED OBJECT  GENERATION  ON REMOVAL  UID
    DynamoGraphDeployment models/assistant  1  deleted  dcd60c33-7bee-4ffd-b346-3fa69d0478ac
    DynamoModel models/assistant-sql  1  deleted  6573f307-dc02-4b8f-a70a-75f1dbcff2b0
    DynamoModel models/assistant-summarise  1  deleted  7725b7d3-3913-42f0-9de0-701905bed495

    History:
    2026-11-22T11:16:51Z  Succeeded  5b1eec6
      create DynamoGraphDeployment models/assistant (none)
      create DynamoModel models/assistant-sql (adapter-only)
      create DynamoModel models/assistant-summarise (adapter-only)
    ");
    // Removed from git, and left in the cluster by a sync that prunes nothing.
    assert_snapshot!(said(&["status", "-e", "staging"]), @"
    NAME  SYNC  HEALTH  GPUS  REVISION  AGE  MESSAGE
    chat  OutOfSync  Healthy  2 h200_sxm  5b1eec6  [AGE]  2 of 2 objects differ from git
    notes  OutOfSync  Healthy  0  5b1eec6  [AGE]  1 of 2 objects differ from git
    ");
    assert_snapshot!(said(&["describe", "notes", "-e", "staging"]), @"
    Name:  notes
    Namespace: models-staging
    Source:  models/notes/model.yaml
    Revision:  5b1eec6
    Sync:  OutOfSync
    Health:  Healthy
    GPUs:  0
    Created:  [AGE] ago (2026-11-22T11:16:50Z)
    Last sync: Succeeded [AGE] ago
    Message:  1 of 2 objects differ from git

    OBJECT  ACTION  HEALTH  MESSAGE
    PersistentVolumeClaim models-staging/notes  keep  Healthy  bound
    DynamoGraphDeployment models-staging/notes  delete  Healthy  all components are ready

    CONDITION  STATUS  REASON  SINCE  MESSAGE
    Ready  False  Unknown  2026-11-22T11:16:56Z  -
    Reconciling  True  Unknown  2026-11-22T11:16:56Z  -
    Stalled  False  Unknown  2026-11-22T11:16:51Z  -

    APPLIED OBJECT  GENERATION  ON REMOVAL  UID
    DynamoGraphDeployment models-staging/notes  1  deleted  5f57b99e-7df3-43c8-8e02-1ddb7935243a
    PersistentVolumeClaim models-staging/notes  -  kept  01a99063-e704-4017-a486-73e51775f719

    History:
    2026-11-22T11:16:51Z  Succeeded  5b1eec6
      create PersistentVolumeClaim models-staging/notes (none)
      create DynamoGraphDeployment models-staging/notes (none)
    ");
    let plan = place.on(&place.taken_over(), &["plan", "-e", "staging"]).success();
    assert_snapshot!(plan.result(), @"
    fleet / staging at 6ef0783 against live

    notes  models/notes/model.yaml
      - delete DynamoGraphDeployment models-staging/notes
          · model notes is no longer in git

    Plan: 0 to create, 0 to change, 1 to delete, 3 unchanged.
    GPUs: 2 h200_sxm

    Next:
    stator sync -e staging --cluster embedded:[TMP]/cluster
    ");
}

/// What git no longer has is pruned by what the record says of it, and nothing beside it.
#[test]
fn what_was_removed_is_pruned() {
    let place = Place::of(&BEFORE);
    let cluster = place.taken_over();
    // Nobody plays the operator, whose finalizer is on the graph.
    let sync = place
        .on(&cluster, &["sync", "-e", "staging", "--yes", "--wait", "--simulate-operator", "--simulate-speed", "1000"]);
    assert_snapshot!(sync.success().result(), @"
    MODEL  RESULT   APPLIED  PRUNED  MESSAGE
    notes  Deleted  0        1       -
    1 of 1 model synced, 1 deleted, 2 writes.
    ");
    assert_eq!(
        place.on(&cluster, &["status", "-e", "staging", "-o", "name"]).success().stdout,
        "model/models-staging/chat\nmodel/models-staging/notes\n"
    );
}

/// A plan that an earlier version saved knows nothing of the labels that say whose an object is: it is read, and refused as
/// out of date. One that is saved now is carried out, and refused while the cluster is another.
#[test]
fn a_saved_plan_is_read_and_out_of_date() {
    let place = Place::of(&BEFORE);
    let cluster = place.taken_over();
    copy(&BEFORE.kept("change"), &place.bench.root(), &[]);
    let old = BEFORE.kept("plan.json");
    let refused = place.on(&cluster, &["sync", "-e", "prod", "--yes", "--plan", old.to_str().unwrap()]).exits(1);
    assert_snapshot!(refused.notes().replace(old.to_str().unwrap(), "[PLAN]"), @"
    Using the embedded cluster in [TMP]/cluster.
    error: the plan in [PLAN] is out of date:
      the content to write differs, although the same fields change
    hint: plan again, review the new plan, and sync that one
    ");
    let file = place.beside("plan.json");
    fs_err::write(&file, place.on(&cluster, &["plan", "-e", "prod", "-o", "json"]).success().stdout).unwrap();
    let sync = || place.on(&cluster, &["sync", "-e", "prod", "--yes", "--plan", file.to_str().unwrap()]);
    let graph = place.beside("cluster/models/dynamographdeployments/chat.yaml");
    let text = fs_err::read_to_string(&graph).unwrap();
    fs_err::write(&graph, text.replace("replicas: 3", "replicas: 2")).unwrap();
    assert_snapshot!(sync().exits(1).notes(), @"
    Using the embedded cluster in [TMP]/cluster.
    error: the plan in [TMP]/plan.json is out of date:
      DynamoGraphDeployment models/chat: other fields change
    hint: plan again, review the new plan, and sync that one
    ");
    fs_err::write(&graph, text).unwrap();
    assert_snapshot!(sync().success().result(), @"
    MODEL      RESULT    APPLIED  PRUNED  MESSAGE
    assistant  Deleting  0        1       DynamoModel models/assistant-summarise is still being deleted (waiting for finalizer nvidia.com/finalizer)
    chat       Synced    2        0       -
    coder      Synced    1        0       -
    5 of 6 models synced, 1 being deleted, 12 writes.
    ");
}
