//! What is asked for: [`LayoutSpec`].

use super::pattern::LayoutPattern;

/// How somebody wants layers on stages, in Megatron's terms. Nothing in it is checked; [`LayoutSpec::resolve`] does that.
///
/// ```
/// use pp_schedule::layout::LayoutSpec;
/// let spec = LayoutSpec { first: Some(2), last: Some(4), ..LayoutSpec::new(12, 4) };
/// assert_eq!(spec.resolve().unwrap().n(), [[2], [3], [3], [4]]);
///
/// let layout = Some("Et*3|(tt|)*2,L".parse().unwrap());
/// let assignment = LayoutSpec { layout, ..LayoutSpec::new(7, 2) }.resolve().unwrap();
/// assert_eq!(assignment.n(), [[3, 2], [2, 0]]);
/// assert_eq!(assignment.off(), [[0, 5], [3, 7]]);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LayoutSpec {
    /// Transformer layers.
    pub n_layers: u32,
    /// Pipeline ranks.
    pub pp: u32,
    /// Model chunks per rank; `None` for one, or for as many as the layout has.
    pub vp: Option<u32>,
    /// Layers of the first rank; the others share the rest.
    pub first: Option<u32>,
    /// Layers of the last rank; the others share the rest.
    pub last: Option<u32>,
    /// The embedding counts as a layer of the first stage.
    pub account_for_embedding: bool,
    /// The loss counts as a layer of the last stage.
    pub account_for_loss: bool,
    /// What stands on each stage. Excludes the four above.
    pub layout: Option<LayoutPattern>,
    /// Layers for multi-token prediction; a layout must have them, otherwise they do not count here.
    pub mtp_layers: Option<u32>,
}

impl LayoutSpec {
    /// The same number of layers on every rank.
    pub const fn new(n_layers: u32, pp: u32) -> Self {
        Self {
            n_layers,
            pp,
            vp: None,
            first: None,
            last: None,
            account_for_embedding: false,
            account_for_loss: false,
            layout: None,
            mtp_layers: None,
        }
    }
}
