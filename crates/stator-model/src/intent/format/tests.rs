use super::*;
use insta::assert_snapshot;
use proptest::prelude::*;

fn formatted(text: &str) -> String {
    format_document(text).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

#[test]
fn keys_go_into_canonical_order_and_take_their_comments_along() {
    let text = "\
# yaml-language-server: $schema=x.json
# Says what this is.
kind: Model
apiVersion: stator.dev/v1alpha1

spec:
    # How it runs.
    serving:
        # Answers.
        decode: {tensorParallel: 4,   replicas: 2}   # two of them
        # Prompts.
        prefill:
            tensorParallel: 2
            replicas:    1
            # replicas: 4
    engine: 'vllm'
    model: m


    unknown: 1
metadata:
    name: a   # short
# The end.
";
    assert_snapshot!(formatted(text), @r#"
    # yaml-language-server: $schema=x.json
    apiVersion: stator.dev/v1alpha1
    # Says what this is.
    kind: Model
    metadata:
      name: a # short

    spec:
      model: m
      engine: "vllm"
      # How it runs.
      serving:
        # Prompts.
        prefill:
          replicas: 1
          # replicas: 4
          tensorParallel: 2
        # Answers.
        decode: {replicas: 2, tensorParallel: 4} # two of them

      unknown: 1
    # The end.
    "#);
}

#[test]
fn items_of_a_list_are_sorted_inside_and_stay_in_their_order() {
    let text = "\
spec:
  adapters:
  # The newer one.
  - source: s3://b/new
    # Asked for by this name.
    name: new
  - {source: s3://b/old, name: old}
";
    assert_snapshot!(formatted(text), @r"
    spec:
      adapters:
        # The newer one.
        # Asked for by this name.
        - name: new
          source: s3://b/new
        - {name: old, source: s3://b/old}
    ");
}

#[test]
fn free_maps_keep_the_order_they_were_written_in() {
    let text = "spec:\n  env:\n    ZULU: z\n    ALPHA: a\n  engine: vllm\n";
    assert_snapshot!(formatted(text), @r"
    spec:
      engine: vllm
      env:
        ZULU: z
        ALPHA: a
    ");
}

#[test]
fn a_repository_and_its_defaults_are_sorted_too() {
    let text = "\
kind: Repository
spec:
  policy:
  - message: no
    name: a
    expression: >-
      true
      || false
  environments:
    prod:
      defaults:
        engine: vllm
        model: m
      namespace: p
";
    assert_snapshot!(formatted(text), @r"
    kind: Repository
    spec:
      environments:
        prod:
          namespace: p
          defaults:
            model: m
            engine: vllm
      policy:
        - name: a
          expression: >-
            true
            || false
          message: no
    ");
}

#[test]
fn text_in_blocks_is_left_as_it_is() {
    let text = "spec:\n  model: |\n    two  \n      lines\n\n  engine: vllm\n";
    let result = formatted(text);
    assert!(result.contains("    two  \n      lines\n"), "{result}");
}

#[test]
fn what_stator_does_not_read_is_not_formatted() {
    let error = |text: &str| format_document(text).unwrap_err().to_string();
    assert_snapshot!(error("a: &x 1\nb: *x\n"), @"line 1, column 7: an anchor or a tag: write the plain value; run `stator validate` to see every error");
    assert_snapshot!(error("a: 1\na: 2\n"), @"line 2, column 1: `a` is defined twice: keep one of them; run `stator validate` to see every error");
    assert_snapshot!(error("a: 1\n---\nb: 1\n"), @"line 2, column 1: a second document: keep one document in a file; run `stator validate` to see every error");
    assert_snapshot!(error("a: [1\n"), @"line 1, column 4: unclosed bracket '[' at char 3 line 1 column 4; run `stator validate` to see every error");
    assert!(format_document(&"[".repeat(100_000)).is_err());
    assert!(format_document(&"- ".repeat(100_000)).is_err());
}

#[test]
fn an_empty_file_stays_empty_and_windows_line_ends_go() {
    assert_eq!(formatted(""), "");
    assert_eq!(formatted("# only this\n"), "# only this\n");
    assert_eq!(formatted("\u{feff}a: 1\r\nb: 2\r\n"), "a: 1\nb: 2\n");
}

/// A document in the shape of a model, with keys in any order, comments and blank lines anywhere, in any indentation.
fn document() -> impl Strategy<Value = String> {
    let scalar = prop_oneof![
        Just("1".to_owned()),
        Just("'1'".to_owned()),
        Just("\"a # b\"".to_owned()),
        Just("plain text".to_owned()),
        Just("{max: 3, min: 1}".to_owned()),
        Just("[b, a]".to_owned()),
        Just("~".to_owned()),
        Just("it's".to_owned()),
    ];
    let leaf = scalar.prop_map(Tree::Leaf);
    let tree = leaf.prop_recursive(4, 40, 6, |inner| {
        let key = prop::sample::select(vec![
            "kind", "spec", "metadata", "serving", "decode", "prefill", "replicas", "gpus", "adapters", "scaling",
            "name", "source", "engine", "model", "template", "zzz",
        ]);
        let noise = prop::sample::select(vec!["", "# c1", "# c2 ", "\n", "\n# c3"]);
        prop_oneof![
            prop::collection::vec((noise.clone(), key, inner.clone(), prop::bool::ANY), 1..6).prop_map(|entries| {
                let mut seen = std::collections::BTreeSet::new();
                Tree::Map(entries.into_iter().filter(|(_, key, _, _)| seen.insert(*key)).collect())
            }),
            prop::collection::vec((noise, inner), 1..4).prop_map(Tree::List),
            prop::sample::select(vec!["|", ">-"]).prop_map(Tree::Block),
        ]
    });
    (tree, 1..5_usize, prop::sample::select(vec!["", "# end\n", "\n\n"])).prop_map(|(tree, step, end)| {
        let mut text = String::new();
        tree.write(&mut text, 0, step);
        text.push_str(end);
        text
    })
}

#[derive(Clone, Debug)]
enum Tree {
    Leaf(String),
    Block(&'static str),
    Map(Vec<(&'static str, &'static str, Tree, bool)>),
    List(Vec<(&'static str, Tree)>),
}

impl Tree {
    fn write(&self, text: &mut String, indent: usize, step: usize) {
        let pad = " ".repeat(indent);
        let noise = |text: &mut String, noise: &str| {
            for line in noise.split_inclusive('\n').filter(|line| !line.is_empty()) {
                let line = line.trim_end_matches('\n');
                text.push_str(&if line.is_empty() { "\n".to_owned() } else { format!("{pad}{line}\n") });
            }
        };
        match self {
            Self::Leaf(value) => text.push_str(&format!("{pad}{value}\n")),
            Self::Block(style) => text.push_str(&format!("{pad}{style}\n{pad} one\n\n{pad} two\n\n")),
            Self::Map(entries) => {
                for (above, key, value, beside) in entries {
                    noise(text, above);
                    let beside = if *beside { "  # beside" } else { "" };
                    match value {
                        Self::Leaf(value) => text.push_str(&format!("{pad}{key}: {value}{beside}\n")),
                        Self::Block(style) => {
                            text.push_str(&format!("{pad}{key}: {style}\n{pad}  one\n\n{pad}  two\n\n"));
                        }
                        Self::Map(_) | Self::List(_) => {
                            text.push_str(&format!("{pad}{key}:{beside}\n"));
                            value.write(text, indent + step, step);
                        }
                    }
                }
            }
            Self::List(items) => {
                for (above, item) in items {
                    noise(text, above);
                    match item {
                        Self::Leaf(value) => text.push_str(&format!("{pad}- {value}\n")),
                        Self::Block(style) => text.push_str(&format!("{pad}- {style}\n{pad}  one\n{pad}  two\n")),
                        Self::Map(_) | Self::List(_) => {
                            let mut inner = String::new();
                            item.write(&mut inner, indent + 2, step);
                            // The first line that holds something goes beside the dash; comments above it, above the dash.
                            let mut dashed = false;
                            for line in inner.split_inclusive('\n') {
                                let bare = line.trim_start();
                                if !dashed && !bare.is_empty() && !bare.starts_with('#') {
                                    dashed = true;
                                    text.push_str(&format!("{pad}- {}", line.get(indent + 2..).unwrap_or(bare)));
                                } else {
                                    text.push_str(line);
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(ProptestConfig::default().cases))]

    #[test]
    fn formatting_keeps_value_and_comments_and_settles(text in document()) {
        let before = layout::parse_layout(&text).map_err(|error| TestCaseError::reject(error.to_string()))?;
        let once = format_document(&text);
        prop_assert!(once.is_ok(), "{:?}\n{text}", once);
        let once = once.unwrap();
        let after = layout::parse_layout(&once).unwrap();
        prop_assert_eq!(before.root.as_ref().map(|r| r.normalized()), after.root.as_ref().map(|r| r.normalized()));
        prop_assert_eq!(before.sorted_comments(), after.sorted_comments());
        prop_assert_eq!(format_document(&once), Ok(once.clone()));
        // Inside a block scalar a blank at the end of a line is data.
        let blocks = text.contains(['|', '>']);
        prop_assert!(blocks || once.lines().all(|line| line.trim_end() == line), "{once}");
    }

    #[test]
    fn no_text_makes_it_panic(text in "[-a:{}\\[\\],|>&*!#%@ \\n\\t'\"\\\\é\u{feff}?~]{0,80}") {
        let _ = format_document(&text);
    }
}

#[test]
fn a_block_that_keeps_its_last_lines_is_left_alone_rather_than_cut() {
    let text = "spec:\n  model: |+\n    two\n\n\n";
    assert_eq!(format_document(text), Err(FormatError::Unsafe { what: "a value" }));
}

/// A cost that doubles with each level would not end before the next ice age.
#[test]
fn deep_nesting_costs_little() {
    for (open, close) in [("[", "]"), ("{a: ", "}"), ("[{a: ", "}]"), ("- ", ""), ("? ", ""), ("[[],", "]")] {
        for depth in [20, 30, 60] {
            let _ = format_document(&format!("{}1{}\n", open.repeat(depth), close.repeat(depth)));
        }
    }
}
