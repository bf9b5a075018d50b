//! Users with exactly the rights that a test gives them.

use super::{ControlPlane, launch};
use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::ServiceAccount;
use k8s_openapi::api::rbac::v1::{PolicyRule, Role, RoleBinding, RoleRef, Subject};
use kube::api::{Api, ObjectMeta, PostParams};
use std::path::PathBuf;

impl ControlPlane {
    /// Makes a service account that may do this much in its own namespace, and gives a kubeconfig file with one
    /// context, named like the account.
    pub async fn account(&self, namespace: &str, name: &str, rules: Vec<PolicyRule>) -> PathBuf {
        let admin = self.admin().await;
        let metadata = ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() };
        let post = PostParams::default();
        let accounts: Api<ServiceAccount> = Api::namespaced(admin.clone(), namespace);
        let account = ServiceAccount { metadata: metadata.clone(), ..ServiceAccount::default() };
        accounts.create(&post, &account).await.unwrap();
        let role = Role { metadata: metadata.clone(), rules: Some(rules) };
        Api::<Role>::namespaced(admin.clone(), namespace).create(&post, &role).await.unwrap();
        let binding = RoleBinding {
            metadata,
            role_ref: RoleRef {
                api_group: "rbac.authorization.k8s.io".to_owned(),
                kind: "Role".to_owned(),
                name: name.to_owned(),
            },
            subjects: Some(vec![Subject {
                kind: "ServiceAccount".to_owned(),
                name: name.to_owned(),
                namespace: Some(namespace.to_owned()),
                ..Subject::default()
            }]),
        };
        Api::<RoleBinding>::namespaced(admin.clone(), namespace).create(&post, &binding).await.unwrap();
        let request = TokenRequest {
            spec: TokenRequestSpec { expiration_seconds: Some(3600), ..TokenRequestSpec::default() },
            ..TokenRequest::default()
        };
        let answer = accounts.create_token_request(name, &post, &request).await.unwrap();
        let token = answer.status.unwrap().token;
        self.kubeconfig_of(&format!("{namespace}-{name}"), &[(name.to_owned(), token)])
    }

    /// Writes one more kubeconfig file, with a context for each user and token.
    pub fn kubeconfig_of(&self, file: &str, users: &[(String, String)]) -> PathBuf {
        let path = self.launch.folder().join(format!("{file}.kubeconfig"));
        fs_err::write(&path, launch::kubeconfig(&self.server(), &self.authority(), users)).unwrap();
        path
    }
}
