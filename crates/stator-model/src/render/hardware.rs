//! GPUs by SKU: the node labels it goes by, the resource it is counted by.

use crate::intent::model::GpuSku;

/// The values of node label `nvidia.com/gpu.product` that a GPU goes by; several where one SKU has several memory
/// sizes or names, none where the label does not exist.
///
/// Source: GPU feature discovery takes the product name of NVML and turns every character outside `[A-Za-z0-9-_. ]`
/// away and blanks into `-` (`k8s-device-plugin`, `internal/lm/resource.go`). AMD nodes have no such label.
pub fn gpu_products(sku: GpuSku) -> &'static [&'static str] {
    match sku {
        GpuSku::Gb200Sxm => &["NVIDIA-GB200"],
        GpuSku::Gb10 => &["NVIDIA-GB10"],
        GpuSku::B200Sxm => &["NVIDIA-B200"],
        GpuSku::H200Sxm => &["NVIDIA-H200"],
        GpuSku::H100Sxm => &["NVIDIA-H100-80GB-HBM3"],
        GpuSku::H100Pcie => &["NVIDIA-H100-PCIe"],
        GpuSku::A100Sxm => &["NVIDIA-A100-SXM4-40GB", "NVIDIA-A100-SXM4-80GB"],
        GpuSku::A100Pcie => &["NVIDIA-A100-80GB-PCIe", "NVIDIA-A100-PCIE-40GB"],
        GpuSku::A30 => &["NVIDIA-A30"],
        GpuSku::L40s => &["NVIDIA-L40S"],
        GpuSku::L40 => &["NVIDIA-L40"],
        GpuSku::L4 => &["NVIDIA-L4"],
        GpuSku::V100Sxm => &["Tesla-V100-SXM2-16GB", "Tesla-V100-SXM2-32GB"],
        GpuSku::V100Pcie => &["Tesla-V100-PCIE-16GB", "Tesla-V100-PCIE-32GB"],
        GpuSku::T4 => &["Tesla-T4"],
        GpuSku::Mi200 | GpuSku::Mi300 => &[],
    }
}

/// The extended resource that a GPU is counted by.
pub fn gpu_resource(sku: Option<GpuSku>) -> &'static str {
    match sku {
        Some(GpuSku::Mi200 | GpuSku::Mi300) => "amd.com/gpu",
        Some(
            GpuSku::Gb200Sxm
            | GpuSku::Gb10
            | GpuSku::B200Sxm
            | GpuSku::H200Sxm
            | GpuSku::H100Sxm
            | GpuSku::H100Pcie
            | GpuSku::A100Sxm
            | GpuSku::A100Pcie
            | GpuSku::A30
            | GpuSku::L40s
            | GpuSku::L40
            | GpuSku::L4
            | GpuSku::V100Sxm
            | GpuSku::V100Pcie
            | GpuSku::T4,
        )
        | None => "nvidia.com/gpu",
    }
}

#[cfg(test)]
mod tests {
    use super::gpu_products;
    use crate::intent::model::GpuSku;
    use serde_json::json;
    use stator_core::dynamo::gpus;
    use stator_core::object::Object;

    #[test]
    fn a_gpu_is_known_again_by_every_product_that_it_is_selected_by() {
        let names = schemars::schema_for!(GpuSku).as_value()["enum"].as_array().unwrap().clone();
        assert!(names.len() >= 16, "{names:?}");
        for name in names {
            let sku: GpuSku = serde_json::from_value(name.clone()).unwrap();
            assert_eq!(name, sku.name());
            for product in gpu_products(sku) {
                let pod = json!({"spec": {"nodeSelector": {"nvidia.com/gpu.product": product}}});
                let graph = json!({
                    "apiVersion": "nvidia.com/v1beta1", "kind": "DynamoGraphDeployment",
                    "metadata": {"name": "a", "namespace": "b"},
                    "spec": {"components": [{"name": "worker", "podTemplate": pod}]},
                });
                let used = gpus::gpu_use(&Object::from_value(graph).unwrap());
                assert_eq!(used.sku.as_deref(), Some(sku.name()), "{product}");
            }
        }
    }
}
