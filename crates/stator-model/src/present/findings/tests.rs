use super::*;
use proptest::prelude::*;
use stator_core::finding::Rule;

const TYPE: Rule = Rule { id: "yaml/type", summary: "Every field has the type that the schema gives it." };
const CAPACITY: Rule = Rule { id: "plan/capacity", summary: "A rollout fits into the GPUs there are." };

fn samples() -> Vec<Finding> {
    let at = |line, column, length| Location { file: "models/a/model.yaml".into(), line, column, length };
    vec![
        Finding::error(TYPE, at(2, 10, 3), "expected a number, found `two`", "write a number: `2`"),
        Finding::warning(CAPACITY, Location::file("models/b|c/model.yaml"), "peak needs 22", "lower `maxSurge`"),
    ]
}

fn source(file: &str) -> Option<String> {
    (file == "models/a/model.yaml").then(|| "spec:\n  count: two\n".to_owned())
}

#[test]
fn a_person_sees_the_line_the_mark_and_the_fix() {
    insta::assert_snapshot!(with_snippets(&samples(), &source, &TerminalOptions::default()), @"
    error[yaml/type]: expected a number, found `two`
     --> models/a/model.yaml:2:10
      |
    2 |   count: two
      |          ^^^
      |
      = help: write a number: `2`
      = rule: https://stator.dev/docs/rules#yaml/type

    warning[plan/capacity]: peak needs 22
      --> models/b|c/model.yaml
      = help: lower `maxSurge`
      = rule: https://stator.dev/docs/rules#plan/capacity
    ");
}

#[test]
fn concise_is_one_line_a_finding() {
    insta::assert_snapshot!(concise(&samples(), &TerminalOptions::default()), @"
    models/a/model.yaml:2:10: error[yaml/type] expected a number, found `two` (write a number: `2`)
    models/b|c/model.yaml: warning[plan/capacity] peak needs 22 (lower `maxSurge`)
    ");
}

#[test]
fn closing_lines() {
    insta::assert_snapshot!(summary_line(&samples(), 14), @"Found 1 error and 1 warning (14 models checked).");
    insta::assert_snapshot!(summary_line(&[], 14), @"All checks passed (14 models).");
    insta::assert_snapshot!(summary_line(&[], 1), @"All checks passed (1 model).");
}

#[test]
fn json_is_the_contract() {
    let report = ValidationReport { findings: &samples(), files: 3, models: 2 };
    insta::assert_snapshot!(crate::present::json(&report).unwrap(), @r#"
    {
      "findings": [
        {
          "file": "models/a/model.yaml",
          "line": 2,
          "column": 10,
          "rule": "yaml/type",
          "severity": "error",
          "message": "expected a number, found `two`",
          "help": "write a number: `2`"
        },
        {
          "file": "models/b|c/model.yaml",
          "line": 0,
          "column": 0,
          "rule": "plan/capacity",
          "severity": "warning",
          "message": "peak needs 22",
          "help": "lower `maxSurge`"
        }
      ],
      "files": 3,
      "models": 2
    }
    "#);
}

#[test]
fn sarif_names_rules_once_and_encodes_paths() {
    insta::assert_snapshot!(sarif(&samples(), "0.1.0").unwrap(), @r#"
    {
      "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
      "runs": [
        {
          "columnKind": "unicodeCodePoints",
          "results": [
            {
              "level": "error",
              "locations": [
                {
                  "physicalLocation": {
                    "artifactLocation": {
                      "uri": "models/a/model.yaml",
                      "uriBaseId": "%SRCROOT%"
                    },
                    "region": {
                      "endColumn": 13,
                      "startColumn": 10,
                      "startLine": 2
                    }
                  }
                }
              ],
              "message": {
                "text": "expected a number, found `two` (write a number: `2`)"
              },
              "ruleId": "yaml/type"
            },
            {
              "level": "warning",
              "locations": [
                {
                  "physicalLocation": {
                    "artifactLocation": {
                      "uri": "models/b%7Cc/model.yaml",
                      "uriBaseId": "%SRCROOT%"
                    }
                  }
                }
              ],
              "message": {
                "text": "peak needs 22 (lower `maxSurge`)"
              },
              "ruleId": "plan/capacity"
            }
          ],
          "tool": {
            "driver": {
              "name": "stator",
              "rules": [
                {
                  "helpUri": "https://stator.dev/docs/rules#plan/capacity",
                  "id": "plan/capacity",
                  "shortDescription": {
                    "text": "A rollout fits into the GPUs there are."
                  }
                },
                {
                  "helpUri": "https://stator.dev/docs/rules#yaml/type",
                  "id": "yaml/type",
                  "shortDescription": {
                    "text": "Every field has the type that the schema gives it."
                  }
                }
              ],
              "version": "0.1.0"
            }
          }
        }
      ],
      "version": "2.1.0"
    }
    "#);
}

#[test]
fn junit_counts_failures() {
    insta::assert_snapshot!(junit(&samples(), 2), @r#"
    <?xml version="1.0" encoding="UTF-8"?>
    <testsuites name="stator validate" tests="2" failures="1">
      <testsuite name="stator validate" tests="2" failures="1">
        <testcase classname="models/a/model.yaml" name="yaml/type models/a/model.yaml:2:10" file="models/a/model.yaml">
          <failure type="yaml/type" message="expected a number, found `two`">error[yaml/type]: expected a number, found `two`
      --&gt; models/a/model.yaml:2:10
      = help: write a number: `2`
      = rule: https://stator.dev/docs/rules#yaml/type</failure>
        </testcase>
        <testcase classname="models/b|c/model.yaml" name="plan/capacity models/b|c/model.yaml" file="models/b|c/model.yaml">
          <system-out>warning[plan/capacity]: peak needs 22
      --&gt; models/b|c/model.yaml
      = help: lower `maxSurge`
      = rule: https://stator.dev/docs/rules#plan/capacity</system-out>
        </testcase>
      </testsuite>
    </testsuites>
    "#);
    insta::assert_snapshot!(junit(&[], 2), @r#"
    <?xml version="1.0" encoding="UTF-8"?>
    <testsuites name="stator validate" tests="1" failures="0">
      <testsuite name="stator validate" tests="1" failures="0">
        <testcase classname="stator" name="2 models"/>
      </testsuite>
    </testsuites>
    "#);
}

#[test]
fn github_commands_cannot_be_faked_by_a_message() {
    let mut hostile = samples();
    hostile[0].message = "x\n::set-output name=a::b".into();
    insta::assert_snapshot!(github(&hostile), @"
    ::error file=models/a/model.yaml,line=2,col=10,title=yaml/type::x%0A::set-output name=a::b%0Awrite a number: `2`
    ::warning file=models/b|c/model.yaml,title=plan/capacity::peak needs 22%0Alower `maxSurge`
    ");
}

#[test]
fn gitlab_fingerprints_differ_for_equal_findings() {
    let mut twice = samples();
    twice.push(twice[0].clone());
    let report: serde_json::Value = serde_json::from_str(&gitlab(&twice).unwrap()).unwrap();
    assert_ne!(report[0]["fingerprint"], report[2]["fingerprint"]);
    insta::assert_snapshot!(report[1]["location"], @r#"{"lines":{"begin":1},"path":"models/b|c/model.yaml"}"#);
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_face_passes_controls_through(text in any::<String>(), line in 0u32..4, column in 0u32..9, length in 0u32..9) {
        let location = Location { file: text.clone(), line, column, length };
        let findings = [Finding::error(TYPE, location, text.clone(), text.clone())];
        let shown = [
            with_snippets(&findings, &|_| Some(text.clone()), &TerminalOptions::default()),
            concise(&findings, &TerminalOptions::default()),
            brief(&findings, &TerminalOptions::default()),
            github(&findings),
            junit(&findings, 1),
        ];
        for face in shown {
            prop_assert!(!face.chars().any(|c| c.is_control() && c != '\n'), "{face:?}");
        }
        prop_assert_eq!(github(&findings).lines().count(), 1);
    }
}
