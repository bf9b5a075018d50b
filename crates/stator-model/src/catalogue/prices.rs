//! What a GPU costs an hour by public price lists: an estimate for the list of recipes, until a repository has `prices`.

use crate::intent::model::GpuSku;
use crate::intent::repository::Prices;
use serde::Serialize;

/// The price of one GPU for one hour, on demand, as somebody published it.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct PriceEstimate {
    /// The GPU.
    pub gpu: GpuSku,
    /// Dollars an hour.
    pub dollars: f64,
    /// When the price was that.
    pub date: &'static str,
    /// Whose price it is.
    pub provider: &'static str,
    /// Where that is written.
    pub source: &'static str,
}

const SPHERON: &str = "https://www.spheron.network/blog/nvidia-h200-vs-b200-vs-gb200";
const RUNPOD: &str = "https://www.spheron.network/blog/runpod-h100-pricing-2026/";

/// One price for each GPU of the recipes. The price of GB200 is published for a superchip of two GPUs, 9.08 dollars.
pub const ESTIMATES: [PriceEstimate; 4] = [
    PriceEstimate { gpu: GpuSku::H100Sxm, dollars: 2.69, date: "2026-05-22", provider: "RunPod", source: RUNPOD },
    PriceEstimate { gpu: GpuSku::H200Sxm, dollars: 4.54, date: "2026-03-17", provider: "Spheron", source: SPHERON },
    PriceEstimate { gpu: GpuSku::B200Sxm, dollars: 6.03, date: "2026-03-17", provider: "Spheron", source: SPHERON },
    PriceEstimate { gpu: GpuSku::Gb200Sxm, dollars: 4.54, date: "2026-03-17", provider: "Spheron", source: SPHERON },
];

/// The estimates as a repository would write them.
pub(super) fn prices() -> Prices {
    Prices { currency: None, gpu_hour: ESTIMATES.iter().map(|one| (one.gpu, one.dollars)).collect() }
}
