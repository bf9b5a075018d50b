//! Twenty wrong guesses of people who come from kubectl, Terraform and Flux: each leads on.

use super::fleet;
use insta::assert_snapshot;
use std::fmt::Write as _;

#[test]
fn wrong_guesses_lead_on() {
    let bench = fleet();
    bench.run(["sync", "-e", "prod", "--yes", "-q"]).success();
    let guesses: &[&str] = &[
        "apply",
        "apply -f models/mock/model.yaml",
        "create",
        "delete mock",
        "destroy",
        "list",
        "get pods",
        "plan -f models/mock/model.yaml",
        "status -A",
        "validate -n models",
        "plan -out plan.json",
        "sync -auto-approve",
        "sync --auto-approve",
        "plan -target=mock",
        "plan -exit-code",
        "describe -e prod models/mokc",
        "describe -e prod model/mokc",
        "status -e prod staging/mock",
        "plan -e prod mock.yaml",
        "explain modelsorce",
        "explain schema/unknown-fields",
        "explain repository.spec.enviroments",
        "rollback",
    ];
    let mut page = String::new();
    for guess in guesses {
        let output = bench.run(guess.split(' '));
        assert_eq!(output.code, Some(2), "{guess}: {output}");
        writeln!(page, "$ stator {guess}\n{}", output.notes()).unwrap();
    }
    assert_snapshot!(page, @"
    $ stator apply
    error: unrecognized subcommand 'apply'

      tip: `stator sync` applies what git declares

    Usage: stator [OPTIONS] <COMMAND>

    For more information, try '--help'.

    $ stator apply -f models/mock/model.yaml
    error: unrecognized subcommand 'apply'

      tip: `stator sync` applies what git declares

    Usage: stator [OPTIONS] <COMMAND>

    For more information, try '--help'.

    $ stator create
    Create a source: ModelSource, secrets, webhook, deploy key

    Usage: stator create [OPTIONS] <COMMAND>

    Commands:
      source  Create a source: ModelSource, secrets, webhook, deploy key

    Options:
      -h, --help  Print help (see more with '--help')

    Global options:
      -q, --quiet         Print only results and errors
      -v, --verbose...    Log more; twice for debug, three times for trace
          --color <WHEN>  When to use colour; NO_COLOR and CLICOLOR_FORCE are respected too [default:
                          auto] [possible values: auto, always, never]

    $ stator delete mock
    error: unrecognized subcommand 'delete'

      tip: remove the model's folder from git, then run `stator sync`: it deletes the models that git no longer has

    Usage: stator [OPTIONS] <COMMAND>

    For more information, try '--help'.

    $ stator destroy
    error: unrecognized subcommand 'destroy'

      tip: remove the model's folder from git, then run `stator sync`: it deletes the models that git no longer has

    Usage: stator [OPTIONS] <COMMAND>

    For more information, try '--help'.

    $ stator list
    error: unrecognized subcommand 'list'

      tip: `stator status` lists the models

    Usage: stator [OPTIONS] <COMMAND>

    For more information, try '--help'.

    $ stator get pods
    error: unrecognized subcommand 'pods'

      tip: a similar subcommand exists: 'models'

    Usage: stator get [OPTIONS] <COMMAND>

    For more information, try '--help'.

    $ stator plan -f models/mock/model.yaml
    error: unexpected argument '-f' found

      tip: files and folders are arguments: `stator plan models/chat`

    Usage: stator plan [OPTIONS] [PATH|MODEL]...

    For more information, try '--help'.

    $ stator status -A
    error: unexpected argument '-A' found

      tip: a command works on one environment, which -e names; `stator get sources -A` lists the sources of all namespaces

    Usage: stator status [OPTIONS] [PATH|MODEL]...

    For more information, try '--help'.

    $ stator validate -n models
    error: unexpected argument '-n' found

      tip: an environment has its namespace; select it with -e

    Usage: stator validate [OPTIONS] [PATH|MODEL]...

    For more information, try '--help'.

    $ stator plan -out plan.json
    error: unexpected argument '-out' found

      tip: save a plan with `stator plan -o json > FILE`, and apply it with `stator sync --plan FILE`

    For more information, try '--help'.

    $ stator sync -auto-approve
    error: unexpected argument '-auto-approve' found

      tip: --yes skips the confirmation

    For more information, try '--help'.

    $ stator sync --auto-approve
    error: unexpected argument '--auto-approve' found

      tip: --yes skips the confirmation

    Usage: stator sync [OPTIONS] [PATH|MODEL]...

    For more information, try '--help'.

    $ stator plan -target=mock
    error: unexpected argument '-target=mock' found

      tip: models are arguments: `stator plan chat`

    For more information, try '--help'.

    $ stator plan -exit-code
    error: unexpected argument '-exit-code' found

      tip: long options have two dashes: --exit-code

    For more information, try '--help'.

    $ stator describe -e prod models/mokc
    Using the embedded cluster in .stator/cluster.
    error: `mokc` is neither a path nor a model of the environment
    hint: did you mean `mock`?

    $ stator describe -e prod model/mokc
    Using the embedded cluster in .stator/cluster.
    error: `mokc` is neither a path nor a model of the environment
    hint: did you mean `mock`?

    $ stator status -e prod staging/mock
    error: `staging/mock` is neither a path nor NAMESPACE/NAME of a model
    hint: check the path; the environment's namespace is models

    $ stator plan -e prod mock.yaml
    error: mock.yaml does not exist
    hint: check the spelling, or start a repository with `stator init`

    $ stator explain modelsorce
    error: there is no field `modelsorce` in `model`; it has `apiVersion`, `kind`, `metadata`, `spec`
    hint: `stator explain` without arguments lists the top-level fields
    hint: did you mean `modelsource`?

    $ stator explain schema/unknown-fields
    error: there is no rule `schema/unknown-fields`
    hint: did you mean `schema/unknown-field`?

    $ stator explain repository.spec.enviroments
    error: there is no field `enviroments` in `repository.spec`: did you mean `environments`?
    hint: `stator explain` without arguments lists the top-level fields

    $ stator rollback
    error: the following required arguments were not provided:
      <MODEL>

    Usage: stator rollback <MODEL>

    For more information, try '--help'.
    ");
}

#[test]
fn right_guesses_are_right() {
    let bench = fleet();
    bench.run(["sync", "-e", "prod", "--yes", "-q"]).success();
    assert_eq!(bench.run(["help"]).success().stdout, bench.run(["--help"]).success().stdout);
    assert_eq!(bench.run(["help", "sync"]).success().stdout, bench.run(["sync", "--help"]).success().stdout);
    let named = bench.run(["describe", "-e", "prod", "mock"]).success();
    for other in ["model/mock", "models/mock", "model/models/mock", "models/mock/model.yaml"] {
        let described = bench.run(["describe", "-e", "prod", other]).success();
        assert_eq!(described.stdout.lines().next(), named.stdout.lines().next(), "{other}");
        bench.run(["status", "-e", "prod", other]).success();
        bench.run(["plan", "-e", "prod", other]).success();
    }
    for word in ["modelsource", "modelsource.spec.url", "repository", "fleetpolicy", "FleetPolicy.spec", "yaml/null"] {
        bench.run(["explain", word]).success();
        bench.run(["explain", word, "-o", "json"]).success().json();
    }
    assert_snapshot!(bench.run(["explain", "schema/unknown-field"]).success().result(), @"
    RULE:  schema/unknown-field

      Only known fields are used.

    PAGE:  https://stator.dev/docs/rules#schema/unknown-field
    ");
    assert_snapshot!(bench.run(["explain", "modelsource.spec.interval"]).success().result(), @"
    KIND:   ModelSource
    FIELD:  spec.interval <string>

      How often to poll for a new revision: `1m`. Webhooks trigger further polls.

    RULES:
      2 to 64 characters
    ");
    bench.run(["explain", "fleetpolicy", "--recursive"]).success();
}

/// Every rule has a place in the manual, and findings lead there.
#[test]
fn every_rule_can_be_explained() {
    let bench = fleet();
    let page = include_str!("../../../docs/rules.md");
    for rule in stator::cli::RULE_GROUPS.iter().flat_map(|(_, rules)| rules.iter()) {
        assert!(page.contains(&format!("<a id=\"{}\"></a>", rule.id)), "{}", rule.id);
    }
    bench.replace("models/mock/model.yaml", "engine: mocker", "engine: null");
    let found = bench.run(["validate", "-e", "prod"]).exits(1);
    assert!(found.stdout.contains("https://stator.dev/docs/rules#yaml/null"), "{found}");
}
