//! Lists as people and programs ask for them.

use super::*;
use crate::observation::FleetObservation;
use crate::samples::{fleet, model, observation};
use proptest::prelude::*;
use stator_core::dynamo::health::Health;
use stator_model::plan::SyncState;

fn names(observation: &FleetObservation, query: &str) -> String {
    let page = observation.models(&ModelQuery::parse(query).unwrap()).unwrap();
    let names: Vec<&str> = page.rows.iter().map(|row| row.name.as_str()).collect();
    format!("{} of {}: {}", page.metadata.total, page.counts.all, names.join(" ")).trim_end().to_owned()
}

#[test]
fn the_worst_comes_first_and_filters_leave_what_they_say() {
    let fleet = fleet();
    let asked = [
        "",
        "sort=name",
        "sort=-name",
        "sort=-gpus,name",
        "health=Failed&health=Degraded",
        "health=Healthy&sync=Blocked",
        "drift=true",
        "drift=false&sort=name",
        "gpu=h200_sxm",
        "namespace=prod&source=team/fleet&health=Healthy",
        "namespace=staging",
        "q=LLAMA+decode",
        "q=llama+nobody",
    ];
    let described: Vec<String> = asked.iter().map(|query| format!("{query:45} {}", names(&fleet, query))).collect();
    insta::assert_snapshot!(described.join("\n"), @"
                                                      6 of 6: broken weak mist llama asleep fine
        sort=name                                     6 of 6: asleep broken fine llama mist weak
        sort=-name                                    6 of 6: weak mist llama fine broken asleep
        sort=-gpus,name                               6 of 6: llama asleep broken fine mist weak
        health=Failed&health=Degraded                 2 of 6: broken weak
        health=Healthy&sync=Blocked                   0 of 6:
        drift=true                                    1 of 6: llama
        drift=false&sort=name                         5 of 6: asleep broken fine mist weak
        gpu=h200_sxm                                  1 of 6: llama
        namespace=prod&source=team/fleet&health=Healthy 1 of 6: fine
        namespace=staging                             0 of 6:
        q=LLAMA+decode                                1 of 6: llama
        q=llama+nobody                                0 of 6:
    ");
}

#[test]
fn counts_say_what_choosing_them_would_show() {
    let fleet = fleet();
    let counts = |query: &str| {
        let page = fleet.models(&ModelQuery::parse(query).unwrap()).unwrap();
        format!("{query:16} {:?} {:?} drifted {}", page.counts.health, page.counts.sync, page.counts.drifted)
    };
    insta::assert_snapshot!(["", "health=Failed", "sync=Synced", "q=llama"].map(counts).join("\n"), @r#"
                         {"Degraded": 1, "Failed": 1, "Healthy": 1, "Progressing": 1, "Suspended": 1, "Unknown": 1} {"Blocked": 1, "OutOfSync": 1, "Synced": 3, "Unknown": 1} drifted 1
        health=Failed    {"Degraded": 1, "Failed": 1, "Healthy": 1, "Progressing": 1, "Suspended": 1, "Unknown": 1} {"Blocked": 1, "OutOfSync": 0, "Synced": 0, "Unknown": 0} drifted 0
        sync=Synced      {"Degraded": 1, "Failed": 0, "Healthy": 1, "Progressing": 0, "Suspended": 1, "Unknown": 0} {"Blocked": 1, "OutOfSync": 1, "Synced": 3, "Unknown": 1} drifted 0
        q=llama          {"Degraded": 0, "Failed": 0, "Healthy": 0, "Progressing": 1, "Suspended": 0, "Unknown": 0} {"Blocked": 0, "OutOfSync": 1, "Synced": 0, "Unknown": 0} drifted 1
    "#);
}

#[test]
fn every_fault_of_a_query_is_told_with_what_is_allowed() {
    let problem = ModelQuery::parse("helth=Failed&health=Falied&limit=501&sort=gpu&drift=yes&a/b=1").unwrap_err();
    insta::assert_json_snapshot!(problem, @r##"
    {
      "type": "/problems/invalid-parameter",
      "title": "A parameter is not allowed",
      "status": 400,
      "errors": [
        {
          "pointer": "#/query/helth",
          "detail": "there is no parameter `helth`",
          "allowed": [
            "q",
            "health",
            "sync",
            "namespace",
            "source",
            "gpu",
            "drift",
            "pending",
            "commit",
            "sort",
            "limit",
            "continue"
          ],
          "help": "did you mean `health`?"
        },
        {
          "pointer": "#/query/health",
          "detail": "`health` is `Falied`",
          "allowed": [
            "Failed",
            "Degraded",
            "Unknown",
            "Progressing",
            "Suspended",
            "Healthy"
          ],
          "help": "did you mean `Failed`?"
        },
        {
          "pointer": "#/query/limit",
          "detail": "`limit` is `501`; use a number from 1 to 500"
        },
        {
          "pointer": "#/query/sort",
          "detail": "`sort` is `gpu`",
          "allowed": [
            "worst",
            "name",
            "namespace",
            "source",
            "health",
            "sync",
            "gpus",
            "cost",
            "disruption",
            "since"
          ],
          "help": "did you mean `gpus`?"
        },
        {
          "pointer": "#/query/drift",
          "detail": "`drift` is `yes`",
          "allowed": [
            "true",
            "false"
          ]
        },
        {
          "pointer": "#/query/a~1b",
          "detail": "there is no parameter `a/b`",
          "allowed": [
            "q",
            "health",
            "sync",
            "namespace",
            "source",
            "gpu",
            "drift",
            "pending",
            "commit",
            "sort",
            "limit",
            "continue"
          ]
        }
      ]
    }
    "##);
    let page = "sort=name&limit=2&continue=";
    let cursor = fleet().models(&ModelQuery::parse("limit=2").unwrap()).unwrap().metadata.next.unwrap();
    let refused = |text: String| fleet().models(&ModelQuery::parse(&text).unwrap()).unwrap_err().status;
    assert_eq!(refused(format!("{page}{cursor}")), 410);
    assert_eq!(refused(format!("{page}rubbish")), 410);
}

#[test]
fn a_query_has_bounds_and_what_is_empty_is_not_asked() {
    let status = |text: &str| ModelQuery::parse(text).map_err(|problem| problem.status).err();
    for many in ["gpu=a&".repeat(20), format!("q={}", "ä".repeat(500)), "commit=&limit=&drift=&sort=".to_owned()] {
        assert_eq!(status(&many), None, "{many}");
    }
    let long = format!("q={}", "ä".repeat(501));
    for much in ["gpu=a&".repeat(21), long, "continue=a%20b".to_owned(), "sort=name,".to_owned()] {
        assert_eq!(status(&much), Some(400), "{much}");
    }
}

fn crowd(names: &[u16]) -> FleetObservation {
    let healths = [Health::Healthy, Health::Failed, Health::Degraded];
    let mut names = names.to_vec();
    names.sort_unstable();
    names.dedup();
    let one = |number: &u16| model(&format!("m{number:05}"), healths[usize::from(number % 3)], SyncState::Synced);
    observation(names.iter().map(one).collect())
}

/// The rows of a list, a page after the other.
fn walk(observation: &FleetObservation, query: &str, limit: usize) -> Vec<String> {
    let (mut seen, mut cursor) = (Vec::new(), String::new());
    loop {
        let text = format!("{query}&limit={limit}&continue={cursor}");
        let page = observation.models(&ModelQuery::parse(&text).unwrap()).unwrap();
        assert_eq!(page.metadata.first, if page.rows.is_empty() { 0 } else { seen.len() + 1 });
        seen.extend(page.rows.iter().map(|row| row.name.clone()));
        assert_eq!(page.metadata.total - seen.len(), page.metadata.remaining_item_count);
        match page.metadata.next {
            Some(next) => cursor = next,
            None => return seen,
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, cases: ProptestConfig::default().cases / 4, ..ProptestConfig::default() })]

    #[test]
    fn pages_hold_every_row_once_whatever_their_size(
        models in proptest::collection::vec(0_u16..500, 0..60),
        limit in 1_usize..20,
        order in prop::sample::select(vec!["sort=worst", "sort=-health,-name", "sort=name", "sort=-since"]),
    ) {
        let crowd = crowd(&models);
        prop_assert_eq!(walk(&crowd, order, limit), walk(&crowd, order, MAX_LIMIT));
    }

    /// Rows come and go between two pages: those that stay are neither missed nor shown twice.
    #[test]
    fn a_page_goes_on_where_the_one_before_ended(
        before in proptest::collection::vec(0_u16..200, 1..50),
        after in proptest::collection::vec(0_u16..200, 0..50),
        limit in 1_usize..10,
    ) {
        let (first, second) = (crowd(&before), crowd(&[before.clone(), after].concat()));
        let query = |cursor: &str| ModelQuery::parse(&format!("limit={limit}&continue={cursor}")).unwrap();
        let page = first.models(&query("")).unwrap();
        let Some(next) = &page.metadata.next else { return Ok(()) };
        let next = second.models(&query(next)).unwrap();
        let order: Vec<String> = walk(&second, "", MAX_LIMIT);
        let at = |name: &String| order.iter().position(|one| one == name).unwrap();
        prop_assert_eq!(at(&next.rows[0].name), at(&page.rows.last().unwrap().name) + 1);
        let back = second.models(&query(next.metadata.previous.as_ref().unwrap())).unwrap();
        prop_assert_eq!(at(&back.rows.last().unwrap().name) + 1, at(&next.rows[0].name));
    }

    #[test]
    fn an_address_says_what_it_was_made_of(
        search in "[a-z&=+# ]{0,12}", namespace in "[a-z/%]{0,8}", limit in prop::option::of(1_usize..=MAX_LIMIT),
    ) {
        let mut query = ModelQuery { limit, ..ModelQuery::default() };
        query.filter.search = (!search.is_empty()).then_some(search);
        query.filter.namespace.extend((!namespace.is_empty()).then_some(namespace));
        query.filter.health.insert(Health::Degraded);
        query.order.keys = vec![(SortKey::Gpus, true), (SortKey::Name, false)];
        prop_assert_eq!(ModelQuery::parse(query.address("").trim_start_matches('?')).unwrap(), query);
    }
}
