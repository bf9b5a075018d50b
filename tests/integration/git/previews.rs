//! What a pull request is told: one comment and one status, for as long as it is open.

use super::stage::{Setting, Stage, model};
use crate::gitea::GiteaComment;
use serde_json::json;

/// Waits until the one comment of ours says this of the pull request, and gives it.
#[track_caller]
fn told(stage: &Stage, number: u64, text: &str) -> GiteaComment {
    stage.until(&format!("the comment says {text:?}"), || {
        let comments = stage.own_comments(number);
        assert!(comments.len() < 2, "{comments:#?}");
        comments.first().is_some_and(|comment| comment.body.contains(text))
    });
    stage.own_comments(number).remove(0)
}

#[test]
fn a_pull_request_has_one_comment_and_status_from_its_opening_to_its_merge() {
    let Some(stage) = Stage::set("previews", Setting { previews: true, ..Setting::DEFAULT }) else { return };
    let first = stage.first.clone();
    stage.follow();
    stage.synced(&first);

    let push = |workers: u32| {
        stage.bench.write("models/chat/model.yaml", model("chat", workers));
        let commit = stage.bench.commit(&format!("{workers} workers"));
        stage.repository.push(&stage.bench.root(), "change");
        commit
    };
    stage.bench.switch("change");
    let two = push(2);
    let number = stage.propose("change", "More workers");
    insta::assert_snapshot!(stage.wait_for(&two, "stator/preview/staging", "success"), @"1 of 1 model changes");
    let first = told(&stage, number, &two[..7]);
    let comment = first.id;
    insta::assert_snapshot!(stage.masked(&first.body), @"
    <!-- stator:preview v1 scope=default/models/staging head=[COMMIT] digest=[COMMIT] -->
    ### stator · staging · 1 of 1 model changes
    **no GPUs · disruption: scale**

    | | Model | What changes | GPUs | Peak | Disruption |
    |--|--|--|--:|--:|--|
    | `~` | chat | update `DynamoGraphDeployment chat`<br>`spec.components[name=worker].replicas: 1 → 2` | – | – | scale |

    <details><summary>~ DynamoGraphDeployment models/chat — 1 field</summary>

    ```diff
    @@ -31,5 +31,5 @@
               - dynamo.mocker
               image: nvcr.io/nvidia/ai-dynamo/dynamo-planner:1.2.0
               name: main
    -    replicas: 1
    +    replicas: 2
         type: decode
    ```

    </details>

    <sub>`[COMMIT]` · `against [COMMIT]` · `stator plan -e staging --from [COMMIT] --to [COMMIT]`</sub>
    ");
    // Nothing is applied.
    assert_eq!(stage.workers("chat"), Some(1));
    // Somebody else's comment is left alone, also when it says that it is stator's.
    let forged = json!({"body": first.body});
    stage.repository.call("POST", &format!("/issues/{number}/comments"), &forged);

    // The same comment says what the next push would change, and what a broken one breaks.
    let four = push(4);
    stage.wait_for(&four, "stator/preview/staging", "success");
    assert_eq!(told(&stage, number, &four[..7]).id, comment);
    stage.bench.replace("models/chat/model.yaml", "engine: mocker", "engine: steam");
    let broken = stage.bench.commit("Break it");
    stage.repository.push(&stage.bench.root(), "change");
    let fault = stage.wait_for(&broken, "stator/preview/staging", "failure");
    assert!(fault.starts_with("models/chat/model.yaml:7: "), "{fault}");
    assert_eq!(told(&stage, number, "models/chat/model.yaml:7").id, comment);

    // A controller that starts anew finds its comment, and what was pushed without it.
    assert_eq!(stage.ask_to_end(), 0, "{}", stage.log());
    // Row D9 of the review: a preview that was posted long ago kept the process from ending for ten seconds.
    assert!(!stage.log().contains("a preview was not finished in time"), "{}", stage.log());
    let three = push(3);
    stage.follow();
    stage.wait_for(&three, "stator/preview/staging", "success");
    assert_eq!(told(&stage, number, &three[..7]).id, comment);

    assert_eq!(stage.repository.comments(number).len(), 2);
    stage.repository.merge(number);
    assert_eq!(told(&stage, number, "merged").id, comment);
    let merged = stage.repository.tip("main");
    stage.synced(&stage.noted(&merged));
    assert_eq!(stage.workers("chat"), Some(3));
    stage.end();
}

#[test]
fn a_pull_request_with_a_fault_fails_by_the_rules_of_its_base_and_is_closed_out() {
    let Some(stage) = Stage::set("preview-fault", Setting { previews: true, ..Setting::DEFAULT }) else { return };
    stage.follow();
    stage.synced(&stage.first);
    stage.bench.switch("broken");
    stage.bench.replace("models/chat/model.yaml", "worker:", "wroker:");
    stage.bench.replace("stator.yaml", "namespace: models", "namespace: elsewhere");
    let head = stage.push_branch("broken", "Break it");
    let number = stage.propose("broken", "Break it @team #1 `");
    stage.wait_for(&head, "stator/preview/staging", "failure");
    let comment = told(&stage, number, "wroker");
    insta::assert_snapshot!(stage.masked(&comment.body), @r"
    <!-- stator:preview v1 scope=default/models/staging head=[COMMIT] digest=[COMMIT] -->
    ### stator · staging · 1 of 1 model changes · 1 model with errors
    **no GPUs · disruption: none**

    > [!CAUTION]
    > **schema/unknown-field** `models/chat/model.yaml:12:5` — unknown field \`wroker\` in \`spec.serving\`
    > Fix: Did you mean \`worker\`?

    | | Model | What changes | GPUs | Peak | Disruption |
    |--|--|--|--:|--:|--|
    | `!` | chat | blocked `DynamoGraphDeployment chat`<br>the model has errors, so its changes are unknown | – | – | none |

    > [!NOTE]
    > This changes the repository's \`stator.yaml\`. Its policy, guards and prices apply only after the merge; this preview uses those of the base branch.

    <sub>`[COMMIT]` · `against [COMMIT]` · `stator plan -e staging --from [COMMIT] --to [COMMIT]`</sub>
    ");

    stage.repository.edit_pull_request(number, &json!({"state": "closed"}));
    assert_eq!(told(&stage, number, "closed").id, comment.id);
    stage.end();
}

#[test]
fn a_preview_follows_the_branch_that_it_goes_into() {
    let Some(stage) = Stage::set("preview-base", Setting { previews: true, ..Setting::DEFAULT }) else { return };
    stage.follow();
    stage.synced(&stage.first);
    stage.bench.switch("more");
    stage.bench.write("models/mail/model.yaml", model("mail", 1));
    let head = stage.push_branch("more", "A mailer");
    let number = stage.propose("more", "A mailer");
    insta::assert_snapshot!(stage.wait_for(&head, "stator/preview/staging", "success"), @"1 of 2 models changes");
    let comment = told(&stage, number, "mail");

    // A rule comes into force that the pull request, which did not change, breaks.
    stage.bench.switch("main");
    let rule = "  policy:\n    - {name: no-mail, expression: model.metadata.name != 'mail', message: no mailers here, severity: error}\n";
    stage.bench.write("stator.yaml", stage.bench.read("stator.yaml") + rule);
    let moved = stage.push("No mailers");
    stage.synced(&moved);
    insta::assert_snapshot!(stage.wait_for(&head, "stator/preview/staging", "failure"), @"models/mail/model.yaml:4: policy `no-mail`: no mailers here");
    assert_eq!(told(&stage, number, "no mailers here").id, comment.id);
    stage.end();
}

#[test]
fn many_open_pull_requests_each_have_one_comment_and_one_status() {
    const MANY: u32 = 12;
    let Some(stage) = Stage::set("preview-many", Setting { previews: true, ..Setting::DEFAULT }) else { return };
    let heads: Vec<String> = (0..MANY)
        .map(|index| {
            stage.bench.reset(&stage.first);
            stage.bench.write("models/chat/model.yaml", model("chat", 2 + index));
            let head = stage.bench.commit(&format!("{} workers", 2 + index));
            stage.bench.branch(&format!("change-{index}"), &head);
            head
        })
        .collect();
    stage.repository.try_push(&stage.bench.root(), &["refs/heads/change-*:refs/heads/change-*"]).unwrap();
    let propose = |(index, head): (usize, &String)| {
        stage.repository.wait_for_tip(&format!("change-{index}"), head);
        stage.propose(&format!("change-{index}"), &format!("Change {index}"))
    };
    let numbers: Vec<u64> = heads.iter().enumerate().map(propose).collect();
    // All of them were there before it was.
    stage.follow();
    for (head, number) in heads.iter().zip(numbers) {
        stage.wait_for(head, "stator/preview/staging", "success");
        told(&stage, number, &head[..7]);
    }
    stage.synced(&stage.first);
    stage.end();
}
