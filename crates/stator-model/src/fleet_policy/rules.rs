//! The rules that administrators' policies judge by.

stator_core::rules! {
    UNREADABLE = "fleet/unreadable", "A policy of the administrators can be read; while one cannot, nothing is written.";
    DESTINATION = "fleet/destination", "Objects are written to a namespace that the policy allows.";
    REPOSITORY = "fleet/repository", "A source follows a repository that the policy allows.";
    SIGNATURE = "fleet/signature", "A commit is signed by a key of the policy where the policy requires signatures.";
    WINDOW = "fleet/window", "A sync runs while the windows of the policy let one in.";
    KIND = "fleet/kind", "A model has objects of kinds that the policy allows.";
    IMAGE = "fleet/image", "Images come from where the policy allows, and by digest where it requires that.";
    SERVICE_ACCOUNT = "fleet/service-account", "Pods name service accounts that the policy allows.";
    SECRET = "fleet/secret", "A model names Secrets that the policy allows.";
    POD = "fleet/pod", "Pods comply with the level of the Pod Security Standards that the policy sets.";
    CLAIM_SIZE = "fleet/claim-size", "A claim is no larger than the policy allows.";
    QUOTA = "fleet/quota", "Together, the models of a source take no more than the policy allows, and a namespace has no more sources.";
    EXPRESSION = "fleet/expression", "A model complies with the policy's rules in CEL.";
    DOCUMENT = "fleet/document", "A file of policies has `FleetPolicy` documents with names of their own.";
}
