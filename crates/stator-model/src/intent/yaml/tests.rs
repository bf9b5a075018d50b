use super::*;
use proptest::prelude::*;
use stator_core::finding::Finding;

fn faults(text: &str) -> String {
    report(&parse_yaml(text.as_bytes(), 0, "model.yaml").findings)
}

fn report(findings: &[Finding]) -> String {
    findings
        .iter()
        .map(|finding| {
            let at = &finding.location;
            format!("{}:{} {} {}: {}\n", at.line, at.column, finding.severity, finding.rule.id, finding.message)
        })
        .collect()
}

fn json(text: &str) -> String {
    let parsed = parse_yaml(text.as_bytes(), 0, "model.yaml");
    assert_eq!(report(&parsed.findings), "", "no findings");
    let root = parsed.root.unwrap();
    assert_eq!(PackedNode::of(&root).unpack(), root);
    root.to_json().to_string()
}

#[test]
fn scalars_are_what_yaml_1_2_says() {
    insta::assert_snapshot!(
        json("{a: no, b: on, c: yes, d: true, e: 0o17, f: 0x1F, g: 1_000, h: 1e3, i: -.5, j: 12:30, k: '7', l: 1.20}"),
        @r#"{"a":"no","b":"on","c":"yes","d":true,"e":15,"f":31,"g":"1_000","h":1000.0,"i":-0.5,"j":"12:30","k":"7","l":1.2}"#
    );
    insta::assert_snapshot!(json("{a: 0, b: -3, c: +4, d: 18446744073709551615, e: '', f: 1.2.0, g: -x, h: 1.}"), @r#"{"a":0,"b":-3,"c":4,"d":18446744073709551615,"e":"","f":"1.2.0","g":"-x","h":1.0}"#);
    insta::assert_snapshot!(json("a: |\n  one\n  two\nb: >-\n  one\n  two\n"), @r#"{"a":"one\ntwo\n","b":"one two"}"#);
}

#[test]
fn a_value_knows_its_place_in_characters() {
    let parsed = parse_yaml("é: {größe: [1, zwei]}\n".as_bytes(), 7, "model.yaml");
    let root = parsed.root.unwrap();
    let entry = &root.entries()[0].value.entries()[0];
    assert_eq!((entry.key_span.line, entry.key_span.column, entry.key_span.length, entry.key_span.file), (1, 5, 5, 7));
    let YamlValue::List(items) = &entry.value.value else { panic!("a list") };
    assert_eq!((items[1].span.line, items[1].span.column, items[1].span.length), (1, 16, 4));
}

#[test]
fn a_byte_order_mark_and_windows_line_ends_are_harmless_at_the_start() {
    insta::assert_snapshot!(json("\u{feff}a: 1\r\nb: two\r\n"), @r#"{"a":1,"b":"two"}"#);
}

#[test]
fn everything_strict_yaml_refuses_is_found_in_one_go() {
    let text = "base: &base {a: 1}\ncopy: *base\nlost: *nowhere\nmerged:\n  <<: *base\n  b: 1\n  b: 2\ntag: !secret x\nnothing:\nnull_too: ~\nmode: 0644\nhuge: 99999999999999999999\n1: one\n? [a]\n: list\n";
    insta::assert_snapshot!(faults(text), @r#"
    1:7 error yaml/anchor: anchor `&base`; anchors and aliases are not allowed
    2:7 error yaml/anchor: alias `*base`; anchors and aliases are not allowed
    3:7 error yaml/anchor: alias `*nowhere`; anchors and aliases are not allowed
    5:3 error yaml/anchor: merge key `<<`; merge keys are not allowed
    5:7 error yaml/anchor: alias `*base`; anchors and aliases are not allowed
    7:3 error yaml/duplicate-key: `b` is defined twice; the first is on line 6
    8:6 error yaml/tag: tag `!secret`; tags are not allowed
    9:8 error yaml/null: an empty value is not allowed; set a value or omit the field
    10:11 error yaml/null: null is not allowed; set a value or omit the field
    11:7 warning yaml/leading-zero: `0644` is a decimal number in YAML 1.2, and an octal one for older readers
    12:7 error yaml/number: `99999999999999999999` is a number that does not fit: it is infinite, undefined, or above 64 bits
    13:1 error yaml/key: `1` as a key; keys are strings
    14:3 error yaml/key: a list or map as a key; keys are strings
    "#);
}

#[test]
fn broken_files_say_where() {
    insta::assert_snapshot!(faults("a: [1, 2\nb: 3\n"), @"2:2 error yaml/syntax: not valid YAML: illegal placement of ':' indicator");
    insta::assert_snapshot!(faults("a:\n\tb: 1\n"), @"2:2 error yaml/syntax: not valid YAML: tabs disallowed within this context (block indentation)");
    insta::assert_snapshot!(faults("a: 1\n---\nb: 2\n"), @"2:1 error yaml/documents: a second document starts here; a file holds one");
    insta::assert_snapshot!(faults("%YAML 1.1\n---\na: 1\n"), @"1:1 error yaml/syntax: not valid YAML: YAML directives are disallowed");
    insta::assert_snapshot!(faults(""), @"0:0 error yaml/empty: the file is empty");
    insta::assert_snapshot!(faults("# nothing but a comment\n"), @"0:0 error yaml/empty: the file is empty");
    insta::assert_snapshot!(faults("a: 1\nb: x\u{feff}y\n"), @"2:5 error yaml/encoding: an invisible byte order mark (U+FEFF) inside the file");
    insta::assert_snapshot!(report(&parse_yaml(b"a: 1\nb: gr\xf6sse\n", 0, "f").findings), @"2:6 error yaml/encoding: the file is not UTF-8: byte 10 is 0xf6");
}

#[test]
fn big_and_deep_files_are_refused_early() {
    let big = format!("a: {}\n", "x".repeat(2 * MAX_BYTES));
    insta::assert_snapshot!(faults(&big), @"0:0 error yaml/too-big: the file is larger than 1048576 bytes (1 MiB), which is the limit");
    let deep = "[".repeat(100_000);
    insta::assert_snapshot!(faults(&deep), @"1:256 error yaml/too-deep: nested deeper than 64 levels");
    let block: String = (0..80).map(|depth| format!("{}a:\n", " ".repeat(depth))).collect();
    insta::assert_snapshot!(faults(&block), @"65:65 error yaml/too-deep: nested deeper than 64 levels");
    let many = "- 1\n".repeat(MAX_NODES + 1);
    insta::assert_snapshot!(faults(&many), @"100000:3 error yaml/too-big: more than 100000 values in one file");
    let bomb = "a: &a [x,x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b]\n";
    assert!(parse_yaml(bomb.as_bytes(), 0, "f").findings.len() > 10);
}

#[test]
fn a_map_of_many_keys_still_finds_duplicates_fast() {
    let mut text: String = (0..40_000).map(|key| format!("k{key}: 1\n")).collect();
    text.push_str("k39999: 2\n");
    insta::assert_snapshot!(faults(&text), @"40001:1 error yaml/duplicate-key: `k39999` is defined twice; the first is on line 40000");
}

proptest! {
    #[test]
    fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        let parsed = parse_yaml(&bytes, 0, "f");
        prop_assert!(parsed.root.is_some() || !parsed.findings.is_empty());
    }

    #[test]
    fn no_text_of_yaml_signs_makes_it_panic(text in "[-a1:,{}\\[\\]&*!|>'\"#%?~ \n\t]{0,200}") {
        let parsed = parse_yaml(text.as_bytes(), 0, "f");
        prop_assert!(parsed.root.is_some() || !parsed.findings.is_empty());
        if let Some(root) = parsed.root {
            prop_assert_eq!(PackedNode::of(&root).unpack(), root);
        }
    }
}

/// A document of the suite, and what it means: several values for several documents.
#[derive(Deserialize)]
struct SuiteCase {
    id: String,
    yaml: String,
    #[serde(default)]
    fail: bool,
    json: Option<String>,
}

/// What is no YAML is refused, and what is YAML is refused by a rule or means what its authors say.
#[test]
fn the_test_suite_of_yaml_is_read_right_or_refused() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/data/yaml-test-suite/cases.json");
    let cases: Vec<SuiteCase> = serde_json::from_slice(&fs_err::read(path).unwrap()).unwrap();
    let (mut wrong, mut outcomes) = (Vec::new(), std::collections::BTreeMap::<String, usize>::new());
    for SuiteCase { id, yaml, fail, json } in &cases {
        let parsed = parse_yaml(yaml.as_bytes(), 0, "model.yaml");
        let is_refused = parsed.findings.first();
        if let Some(finding) = is_refused {
            let place = &finding.location;
            let lines = yaml.split('\n').count();
            // Of the document as a whole, there is no line.
            let is_whole = place.line == 0 && place.column == 0;
            assert!(is_whole || ((1..=lines).contains(&(place.line as usize)) && place.column >= 1), "{id}: {place:?}");
        }
        let found: Vec<Value> = parsed.root.iter().map(YamlNode::to_json).collect();
        let meant: Option<Vec<Value>> = json
            .as_ref()
            .and_then(|json| serde_json::Deserializer::from_str(json).into_iter().collect::<Result<_, _>>().ok());
        let outcome = match (fail, is_refused, meant) {
            (true, Some(_), _) => "no YAML: refused".to_owned(),
            // `9C9N` indents a list in brackets too little, and cannot be misread.
            (true, None, _) => format!("no YAML: read, {id}"),
            (false, Some(finding), _) => format!("YAML: refused by {}", finding.rule.id),
            (false, None, None) => "YAML that has no JSON: read".to_owned(),
            (false, None, Some(meant)) if meant == found => "YAML: read as it is meant".to_owned(),
            (false, None, Some(meant)) => {
                wrong.push(format!("{id} {yaml:?}: {found:?} instead of {meant:?}"));
                continue;
            }
        };
        *outcomes.entry(outcome).or_default() += 1;
    }
    assert_eq!(wrong.join("\n"), "");
    let page: String = outcomes.iter().map(|(outcome, count)| format!("{count} {outcome}\n")).collect();
    insta::assert_snapshot!(page, @r#"
    4 YAML that has no JSON: read
    183 YAML: read as it is meant
    20 YAML: refused by yaml/anchor
    11 YAML: refused by yaml/documents
    5 YAML: refused by yaml/empty
    21 YAML: refused by yaml/key
    15 YAML: refused by yaml/null
    19 YAML: refused by yaml/syntax
    30 YAML: refused by yaml/tag
    1 no YAML: read, 9C9N
    93 no YAML: refused
    "#);
}
