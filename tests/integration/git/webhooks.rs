//! Deliveries that do not come, come twice, come again, or are not Gitea's.

use super::stage::{HOOK, Setting, Stage, model};
use crate::gitea::{DeliveryFate, with_header};
use aws_lc_rs::hmac;

#[path = "../../support/mutations.rs"]
mod mutations;

#[test]
fn a_lost_delivery_costs_no_more_than_one_look() {
    let Some(stage) = Stage::set("lost", Setting { interval: "2s", ..Setting::DEFAULT }) else { return };
    stage.follow();
    stage.wire.goes(DeliveryFate::Lose);
    stage.bench.write("models/chat/model.yaml", model("chat", 2));
    let commit = stage.push("Two workers");
    stage.synced(&commit);
    assert_eq!(stage.wire.wait_for_push(&commit).answers, Vec::<u16>::new());
    stage.end();
}

#[test]
fn a_delivery_that_comes_twice_or_again_is_one() {
    let Some(stage) = Stage::set("doubled", Setting::DEFAULT) else { return };
    stage.follow();
    stage.wire.goes(DeliveryFate::Double);
    stage.bench.write("models/chat/model.yaml", model("chat", 2));
    let commit = stage.push("Two workers");
    stage.synced(&commit);
    let delivery = stage.wire.wait_for_push(&commit);
    assert!(delivery.answers.iter().all(|code| (200..300).contains(code)), "{:?}", delivery.answers);
    let said = stage.said_of(&commit);

    // Somebody sends it again, long after, and changes what it is about: the signature is over what was signed.
    stage.wire.goes(DeliveryFate::Pass);
    assert!((200..300).contains(&stage.wire.replay(&delivery)), "{}", stage.log());
    stage.bench.write("models/chat/model.yaml", model("chat", 3));
    let next = stage.push("Three workers");
    stage.synced(&next);
    assert_eq!(stage.said_of(&commit), said, "{}", stage.log());
    stage.end();
}

#[test]
fn what_gitea_did_not_sign_is_refused_and_starts_nothing() {
    let Some(stage) = Stage::set("forged", Setting::DEFAULT) else { return };
    let first = stage.first.clone();
    stage.follow();
    stage.synced(&first);
    // The real delivery is kept from the controller: what follows must not make it look.
    stage.wire.goes(DeliveryFate::Lose);
    stage.bench.write("models/chat/model.yaml", model("chat", 2));
    let commit = stage.push("Two workers");
    let real = stage.wire.wait_for_push(&commit);

    let other = String::from_utf8(real.body.to_vec()).unwrap().replace("main", "evil");
    let sign =
        |secret: &[u8], body: &[u8]| hex::encode(hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, secret), body).as_ref());
    let forged = sign(b"another secret", &real.body);
    let headers = with_header(&real.headers, "x-gitea-signature", &forged);
    let headers = with_header(&headers, "x-hub-signature-256", &format!("sha256={forged}"));
    let mut unsigned = real.headers.clone();
    for name in ["x-gitea-signature", "x-hub-signature-256", "x-hub-signature", "x-gogs-signature"] {
        unsigned.remove(name);
    }
    let large = vec![b' '; 64 << 20];
    let truly = sign(HOOK.as_bytes(), &large);
    let oversized = with_header(&real.headers, "x-gitea-signature", &truly);
    let answers = [
        ("another body", stage.wire.send(&real.headers, other)),
        ("another secret", stage.wire.send(&headers, real.body.clone())),
        ("no signature", stage.wire.send(&unsigned, real.body.clone())),
        ("an empty one", stage.wire.send(&with_header(&unsigned, "x-gitea-signature", ""), real.body.clone())),
        ("64 MiB, signed", stage.wire.send(&oversized, large)),
    ];
    for (what, changed) in mutations::mutated_bodies(&real.body) {
        assert_eq!(stage.wire.send(&real.headers, changed), 401, "{what}");
    }
    let signature = real.header("x-gitea-signature");
    for (what, changed) in mutations::mutated_signatures("", signature, &sign(HOOK.as_bytes(), b"{}")) {
        let changed = with_header(&real.headers, "x-gitea-signature", &changed);
        assert_eq!(stage.wire.send(&changed, real.body.clone()), 401, "signature {what}");
    }
    let answers: Vec<String> = answers.iter().map(|(what, code)| format!("{what}: {code}")).collect();
    insta::assert_snapshot!(answers.join("\n"), @r#"
        another body: 401
        another secret: 401
        no signature: 401
        an empty one: 401
        64 MiB, signed: 413
        "#);
    assert_eq!(stage.said_of(&commit), "", "{}", stage.log());

    // The real one, late, does.
    stage.wire.goes(DeliveryFate::Pass);
    assert!((200..300).contains(&stage.wire.replay(&real)), "{}", stage.log());
    stage.synced(&commit);
    stage.end();
}
