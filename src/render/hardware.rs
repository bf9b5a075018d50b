//! GPUs by SKU: Dynamo's name, the node labels it goes by, the resource it is counted by.

use crate::intent::model::GpuSku;

/// The GPU as Dynamo's `GPUSKUType` spells it.
pub fn sku_name(sku: GpuSku) -> &'static str {
    match sku {
        GpuSku::Gb200Sxm => "gb200_sxm",
        GpuSku::B200Sxm => "b200_sxm",
        GpuSku::H200Sxm => "h200_sxm",
        GpuSku::H100Sxm => "h100_sxm",
        GpuSku::H100Pcie => "h100_pcie",
        GpuSku::A100Sxm => "a100_sxm",
        GpuSku::A100Pcie => "a100_pcie",
        GpuSku::A30 => "a30",
        GpuSku::L40s => "l40s",
        GpuSku::L40 => "l40",
        GpuSku::L4 => "l4",
        GpuSku::V100Sxm => "v100_sxm",
        GpuSku::V100Pcie => "v100_pcie",
        GpuSku::T4 => "t4",
        GpuSku::Mi200 => "mi200",
        GpuSku::Mi300 => "mi300",
    }
}

/// The values of node label `nvidia.com/gpu.product` that a GPU goes by; several where one SKU has several memory
/// sizes or names, none where the label does not exist.
///
/// Source: GPU feature discovery takes the product name of NVML and turns every character outside `[A-Za-z0-9-_. ]`
/// away and blanks into `-` (`k8s-device-plugin`, `internal/lm/resource.go`). AMD nodes have no such label.
pub fn gpu_products(sku: GpuSku) -> &'static [&'static str] {
    match sku {
        GpuSku::Gb200Sxm => &["NVIDIA-GB200"],
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
