//! Pages of a cluster's sources, for tests of other folders, and people who read them: with all rights, with some, with none.

use super::objects::Stage;
use super::pages::{Fleet, everything, rule, token};
use crate::testbed;
use crate::web::scene::Pages;

/// Lets a test look at pages, with the namespace of a source `fleet` and of its models, and the tokens of these three.
pub fn for_readers(name: &str, look: impl FnOnce(&Pages, &str, [String; 3])) {
    let Some(plane) = testbed::shared() else { return };
    let stage = Stage::on(plane);
    let fleet = Fleet::start(&stage, name);
    let own = ["modelsources"];
    let mut rules = everything();
    rules.push(rule(&["get", "patch"], "stator.dev", &own));
    let all = token(&stage, &fleet.blue, "all", rules, "stator");
    // Who may ask for a sync, without the right to change the source; and no objects of models.
    let rules =
        vec![rule(&["list"], "stator.dev", &["models"]), rule(&["list", "propose", "sync"], "stator.dev", &own)];
    let some = token(&stage, &fleet.blue, "some", rules, "stator");
    let none = token(&stage, &fleet.blue, "none", Vec::new(), "stator");
    fleet.settled(&all, 2);
    look(&fleet.pages, &fleet.blue, [all, some, none]);
}
