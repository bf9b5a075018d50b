//! Pages in a real Chromium: a person at a desk, on a phone, and with the keyboard alone.

use super::scene::Pages;
use super::{bench, settled, sync};
use crate::browser::{self, Browser};
use crate::testbed::ReservedPort;
use crate::workbench::Workbench;

fn address(pages: &Pages, path: &str) -> String {
    format!("http://{}{path}", pages.address)
}

/// Pages of the three models, and a browser that opened the link.
fn scene() -> Option<(Workbench, Pages, Browser)> {
    let browser = Browser::start()?;
    let bench = bench();
    bench.commit("Serve three models");
    let mut pages = Pages::start(&mut sync(&bench));
    let link = pages.links().remove(0);
    browser.open(&link);
    let cookie = browser.wait_for_script("cookieStore.getAll().then(() => done(document.title))");
    assert!(cookie.as_str().is_some_and(|title| title.contains("stator")), "{cookie}");
    crate::testbed::until("another link", || pages.links().len() == 2);
    let second = pages.links().remove(1);
    pages.enter(&second);
    settled(&pages);
    Some((bench, pages, browser))
}

/// No page has a fault of accessibility: in both themes, at a desk and on a phone, with errors and with a dialog open.
#[test]
fn every_page_is_for_everybody() {
    let Some(axe) = browser::axe() else { return };
    let Some((bench, pages, browser)) = scene() else { return };
    bench.replace("models/alpha/model.yaml", "replicas: 2", "replicas: 3");
    pages.shows("/changes", "a change", |answer| answer.body.contains("models/alpha"));
    let paths = [
        "/",
        "/?q=nobody",
        "/models/models/gamma",
        "/models/models/gamma/tree",
        "/models/models/gamma/logs",
        "/models/models/alpha/edit",
        "/models/models/gamma/edit?field=%2Fspec%2Fserving%2Fworker%2Freplicas&value=many",
        "/new",
        "/sources",
        "/sources/-/fleet",
        "/changes",
        "/previews",
        "/capacity",
        "/api",
        "/problems/forbidden",
        "/nothing",
    ];
    let mut faults = Vec::new();
    for (width, height) in [(1280, 800), (360, 740)] {
        browser.resize(width, height);
        for is_dark in [false, true] {
            browser.darken(is_dark);
            for path in paths {
                browser.open(&address(&pages, path));
                if path == "/" {
                    browser.press("?");
                    browser.until("the keys are shown", "document.getElementById('keys').open");
                }
                let _ = browser.run(&axe);
                let found = browser.wait_for_script(
                    "axe.run().then((all) => done(all.violations.map((one) => one.id + ' ' + one.impact + ': ' + \
                     one.nodes.map((node) => node.html.slice(0, 120)).slice(0, 2).join(' | '))))",
                );
                let found = found.as_array().unwrap().iter().map(|one| one.as_str().unwrap());
                faults.extend(found.map(|one| format!("{path} at {width}, dark {is_dark}: {one}")));
                // Nothing is wider than the window: what is wide scrolls by itself.
                let wide = browser.run("return document.documentElement.scrollWidth > window.innerWidth");
                if wide == true {
                    faults.push(format!("{path} at {width} is wider than the window"));
                }
            }
        }
    }
    assert_eq!(faults, Vec::<String>::new());
    let missing = |one: &String| {
        (one.contains("/nothing") && one.contains("404")) || (one.contains("/logs") && one.contains("409"))
    };
    let complaints: Vec<String> = browser.complaints().into_iter().filter(|one| !missing(one)).collect();
    assert_eq!(complaints, Vec::<String>::new(), "the console says nothing, of the content policy in particular");
}

/// The row of a model changes by itself, and whoever stands on another one stays there.
#[test]
fn a_page_lives_and_says_when_it_does_not() {
    let Some((bench, mut pages, browser)) = scene() else { return };
    browser.open(&address(&pages, "/?sort=name"));
    browser.until("it is live", "document.getElementById('connection').textContent === 'Live.'");
    // The keyboard alone: to the second row.
    browser.press("jj");
    let focused = "document.activeElement.textContent === 'beta'";
    browser.until("the second row has the focus", focused);
    bench.replace(".stator/cluster/models/dynamographdeployments/alpha.yaml", "replicas: 2", "replicas: 5");
    browser.until("the drift is shown", "document.querySelector('#rows tr').innerText.includes('OutOfSync')");
    browser.until("the focus stays", focused);
    browser.press("k\u{e007}");
    browser.until("the model is opened", "location.pathname === '/models/models/alpha'");
    assert!(browser.text("#pending").contains("1 object would change"), "{}", browser.text("#pending"));
    assert!(browser.text("#drift").contains("an edit of its file"), "{}", browser.text("#drift"));
    // Ages count up by themselves.
    let age = "document.querySelector('#age time').textContent";
    let before = browser.run(&format!("return {age}"));
    browser.until("the age counts up", &format!("{age} !== {before}"));
    // The theme is kept.
    browser.click("#theme");
    browser.click("#theme");
    browser.open(&address(&pages, "/sources"));
    browser.until("it is dark", "document.documentElement.dataset.theme === 'dark'");
    browser.press("/x");
    browser.until("the search has the focus", "document.activeElement.id === 'search'");

    browser.open(&address(&pages, "/"));
    browser.until("it is live", "document.getElementById('connection').textContent === 'Live.'");
    assert_eq!(pages.end().code(), Some(0));
    browser.until("it says so", "document.getElementById('connection').textContent.includes('Not connected')");
}

/// What is typed is planned while it is typed, and nothing is lost on the way to another kind of serving and back.
#[test]
fn a_form_follows_what_is_typed() {
    let Some((bench, pages, browser)) = scene() else { return };
    browser.resize(1280, 800);
    browser.open(&address(&pages, "/models/models/gamma/edit"));
    let replicas = "#f-spec-serving-worker-replicas";
    browser.fill(replicas, "4");
    browser.until("the plan follows", "document.getElementById('plan').innerText.includes('2 now, 4 after')");
    // The plan and the buttons stay in view while fields are edited.
    let seen = "(() => { const box = document.querySelector('.submit button').getBoundingClientRect(); \
                return box.top >= 0 && box.bottom <= innerHeight })()";
    let _ = browser.run(&format!("document.querySelector('{replicas}').scrollIntoView({{block: 'center'}})"));
    browser.until("the buttons are in view", seen);
    browser.until("the YAML follows", "document.getElementById('yaml').value.includes('replicas: 4')");
    browser.click("#mode-target");
    browser.until("the target is there", "document.getElementById('yaml').value.includes('sla:')");
    browser.fill("#f-spec-sla-ttft", "300ms");
    browser.until("it follows", "document.getElementById('yaml').value.includes('ttft: 300ms')");
    browser.click("#mode-direct");
    browser.until("what was typed is back", "document.getElementById('yaml').value.includes('replicas: 4')");
    browser.click("#mode-target");
    browser.until("and the target", "document.getElementById('yaml').value.includes('ttft: 300ms')");
    browser.click("#mode-direct");
    browser.until("the field shows it", &format!("document.querySelector('{replicas}').value === '4'"));
    // Whoever goes on in the YAML at once loses nothing of the field.
    browser.fill("#f-spec-servedName", "typed");
    browser.click("#yaml");
    // A click sets the caret in the line that is shown there, where a comment may be no comment.
    let _ = browser.run("yaml.setSelectionRange(yaml.value.length, yaml.value.length)");
    browser.press("# a note");
    browser.until("both are there", "yaml.value.includes('# a note')");
    let _ = browser.run("document.getElementById('yaml').blur()");
    browser.until("the field is in the YAML", "/servedName: typed/.test(yaml.value) && /# a note/.test(yaml.value)");
    // A fault stands at its field while it is there.
    browser.fill("#f-spec-runtime", "nonsense");
    browser.until("it is told", "document.querySelector('#f-spec-runtime').getAttribute('aria-invalid') === 'true'");
    browser.fill("#f-spec-runtime", "1.2.0");
    browser.until("it is gone", "document.querySelector('#f-spec-runtime').getAttribute('aria-invalid') === null");
    // Whoever signs out elsewhere, or whose network is away, loses nothing.
    browser.connect(false);
    browser.fill(replicas, "7");
    browser.until("it says so", "document.getElementById('live').textContent.includes('Not connected')");
    browser.connect(true);
    browser.fill("#f-spec-servedName", "gamma-seven");
    browser.until("both are there", "/replicas: 7/.test(yaml.value) && /servedName: gamma-seven/.test(yaml.value)");
    assert!(!bench.read("models/gamma/model.yaml").contains("replicas: 7"));
}

/// Names and messages are text, whoever wrote them.
#[test]
fn hostile_commits_are_text() {
    let Some((bench, pages, browser)) = scene() else { return };
    bench.replace("models/alpha/model.yaml", "replicas: 2", "replicas: 3");
    bench.commit("</td><script>document.title = 'owned'</script><img src=x onerror=\"document.title = 'owned'\">");
    pages.shows("/changes", "the commit", |answer| answer.body.contains("owned"));
    for path in ["/changes", "/sources", "/models/models/alpha", "/sources/-/fleet"] {
        browser.open(&address(&pages, path));
        browser.until("it is shown as text", "document.body.innerText.includes(\"document.title = 'owned'\")");
        assert_eq!(browser.run("return document.title === 'owned'"), false, "{path}");
    }
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

/// Whoever is signed out in the middle of a form signs in on another tab, and goes on where they were.
#[test]
fn a_half_filled_form_outlives_its_session() {
    let Some((bench, mut pages, browser)) = scene() else { return };
    browser.open(&address(&pages, "/models/models/gamma/edit"));
    let replicas = "#f-spec-serving-worker-replicas";
    browser.fill(replicas, "4");
    browser.until("the YAML follows", "yaml.value.includes('replicas: 4')");
    browser.forget_cookies();
    browser.fill("#f-spec-servedName", "half-filled");
    browser.until("it says so", "document.getElementById('live').textContent.includes('Signed out')");
    assert_eq!(browser.run(&format!("return document.querySelector('{replicas}').value")), "4");
    // The link on another tab.
    let known = pages.links().len();
    let link = pages.links().remove(known - 1);
    let entered = browser.wait_for_script(&format!("fetch({link:?}).then((answer) => done(answer.status))"));
    assert_eq!(entered, 200);
    browser.fill(replicas, "5");
    browser.until("it goes on", "/replicas: 5/.test(yaml.value) && /servedName: half-filled/.test(yaml.value)");
    assert!(!bench.read("models/gamma/model.yaml").contains("replicas: 5"));
    // A server that is gone says nothing, and loses nothing.
    assert_eq!(pages.end().code(), Some(0));
    browser.fill(replicas, "6");
    browser.until("it says so", "document.getElementById('live').textContent.includes('Not connected')");
    assert_eq!(browser.run("return document.getElementById('f-spec-servedName').value"), "half-filled");
}

/// A server that is killed and comes back at the same address: the page says both, and misses nothing.
#[test]
fn a_page_outlives_its_server() {
    let Some(browser) = Browser::start() else { return };
    let bench = bench();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("sources.yaml");
    bench.commit("Serve three models");
    fs_err::write(&file, super::controller::source(&bench, "fleet", "")).unwrap();
    let start = |listen: &str| {
        let mut command = bench.command();
        command.current_dir(folder.path()).args([
            "controller",
            "--source-file",
            "sources.yaml",
            "--listen",
            "127.0.0.1:0",
        ]);
        command.args(["--cluster", "embedded:cluster", "--simulate-operator", "--simulate-speed", "1000"]);
        Pages::start(command.args(["--web-listen", listen]))
    };
    let port = ReservedPort::reserve().unwrap();
    let listen = port.address().to_string();
    let first = start(&listen);
    browser.open(&first.links().remove(0));
    browser.until("it is live", "document.getElementById('connection').textContent === 'Live.'");
    browser.until("three models", "document.querySelectorAll('#rows tr').length === 3");
    // Killed, not asked to end.
    drop(first);
    browser.until("it says so", "document.getElementById('connection').textContent.includes('Not connected')");
    bench.replace("models/alpha/model.yaml", "name: alpha", "name: delta");
    bench.commit("Rename alpha");
    let second = start(&listen);
    // The cookie was the first server's: the page says so, and the new link opens it again.
    browser.until("it asks to sign in", "document.getElementById('connection').textContent.includes('Signed out')");
    let link = second.links().remove(0);
    assert_eq!(browser.wait_for_script(&format!("fetch({link:?}).then((answer) => done(answer.status))")), 200);
    browser.until("nothing was missed", "document.querySelector('#rows').innerText.includes('delta')");
    browser.until("it is live", "document.getElementById('connection').textContent === 'Live.'");
}

/// Every page works without a script, and on paper.
#[test]
fn pages_need_no_script() {
    let Some((bench, pages, browser)) = scene() else { return };
    browser.allow_scripts(false);
    for (path, wanted) in [
        ("/?health=Healthy&sort=name", "alpha"),
        ("/models/models/gamma", "Components"),
        ("/models/models/gamma/tree", "DynamoGraphDeployment"),
        ("/sources", "fleet"),
        ("/changes", "No model has pending changes"),
        ("/capacity", "l40s"),
        ("/api", "GET /api/v1/models"),
    ] {
        browser.open(&address(&pages, path));
        assert!(browser.text("main").contains(wanted), "{path}: {}", browser.text("main"));
    }
    browser.open(&address(&pages, "/models/models/gamma/edit"));
    browser.fill("#f-spec-serving-worker-replicas", "4");
    browser.click(".submit button");
    browser.until("the plan", "document.getElementById('plan').innerText.includes('2 now, 4 after')");
    assert!(!bench.read("models/gamma/model.yaml").contains("replicas: 4"));
    browser.open(&address(&pages, "/models/models/gamma"));
    let pdf = browser.print();
    assert!(pdf.starts_with(b"%PDF") && pdf.len() > 10_000, "{} bytes", pdf.len());
}

/// A tab that stays open while its models change, again and again, keeps what it had.
#[test]
fn a_tab_does_not_grow() {
    let Some((bench, pages, browser)) = scene() else { return };
    browser.open(&address(&pages, "/?sort=name"));
    browser.until("it is live", "document.getElementById('connection').textContent === 'Live.'");
    let file = ".stator/cluster/models/dynamographdeployments/alpha.yaml";
    let shown = |state: &str| format!("document.querySelector('#rows tr').innerText.includes('{state}')");
    let turn = || {
        bench.replace(file, "replicas: 2", "replicas: 5");
        browser.until("drift", &shown("OutOfSync"));
        bench.replace(file, "replicas: 5", "replicas: 2");
        browser.until("no drift", &shown("Synced"));
    };
    turn();
    let before = browser.memory();
    (0..8).for_each(|_| turn());
    let after = browser.memory();
    assert!(after < before + before / 4 + 500_000, "{before} bytes before, {after} after");
}

/// The pictures of the documents are of this program. `STATOR_BLESS=1` takes them again.
#[test]
fn pictures_of_the_documents_are_taken() {
    let Some((bench, pages, browser)) = scene() else { return };
    browser.resize(1280, 800);
    bench.replace("models/alpha/model.yaml", "replicas: 2", "replicas: 3");
    pages.shows("/changes", "a change", |answer| answer.body.contains("models/alpha"));
    let pictures = [
        ("models", "/"),
        ("model", "/models/models/gamma"),
        ("changes", "/changes"),
        ("form", "/models/models/gamma/edit?field=%2Fspec%2Fserving%2Fworker%2Freplicas&value=4"),
    ];
    let take = |name: &str, address: &str| {
        browser.open(address);
        browser.until("it is shown", "document.querySelector('h1')");
        let taken = browser.screenshot();
        let file = format!("{}/docs/images/{name}.png", env!("CARGO_MANIFEST_DIR"));
        if std::env::var_os("STATOR_BLESS").is_some() {
            fs_err::write(&file, &taken).unwrap();
        }
        // The size stands in the first chunk (PNG, 11.2.2); fonts differ between machines, and the bytes with them.
        let stored = fs_err::read(&file).unwrap();
        assert_eq!(&stored[..24], &taken[..24], "{name}.png is of another size: take it again");
    };
    for (name, path) in pictures {
        take(name, &address(&pages, path));
    }
    // The plan of a costlier change as a file, as a pipeline keeps it.
    bench.replace("models/gamma/model.yaml", "gpus: 1", "gpus: 2");
    let plan = bench.run(["plan", "-o", "html"]).success().stdout;
    fs_err::write(bench.path("../plan.html"), plan).unwrap();
    take("plan", &format!("file://{}", bench.path("../plan.html").canonicalize().unwrap().display()));
}

/// Filters, order and page stand in the address: going back, and another window, show the same.
#[test]
fn an_address_shows_the_same_again() {
    let Some((_bench, pages, browser)) = scene() else { return };
    let list = "/?health=Healthy&sync=Synced&namespace=models&source=fleet&sort=-name&limit=1";
    browser.open(&address(&pages, list));
    let follow = |text: &str| {
        let link =
            format!("[...document.querySelectorAll('.pager a')].find((one) => one.innerText.includes('{text}'))");
        let _ = browser.run(&format!("{link}.click()"));
    };
    let row = |name: &str| format!("document.querySelector('#rows th').innerText.includes('{name}')");
    browser.until("the last name comes first", &row("gamma"));
    follow("next");
    browser.until("the second page", &row("beta"));
    follow("next");
    browser.until("the third page", &row("alpha"));
    let here = browser.run("return location.href").as_str().unwrap().to_owned();
    browser.click("#rows th a");
    browser.until("the model", "location.pathname === '/models/models/alpha'");
    browser.go_back();
    browser.until("the same row", &row("alpha"));
    assert_eq!(browser.run("return location.href"), here.as_str());
    browser.open_tab();
    browser.open(&here);
    browser.until("the same row in another tab", &row("alpha"));
    browser.open(&address(&pages, "/?helth=Healthy"));
    assert!(browser.text("main").contains("did you mean"), "{}", browser.text("main"));
}

/// Tabs that nobody looks at hold no connection, of which a browser has six for a site.
#[test]
fn many_tabs_do_not_block_each_other() {
    let Some((_bench, pages, browser)) = scene() else { return };
    let live = "document.getElementById('connection').textContent === 'Live.'";
    for _ in 0..20 {
        browser.open_tab();
        browser.open(&address(&pages, "/"));
        browser.until("it is live", live);
    }
}
