//! Both ways on the CPU, and that a wrong operation is found.

use candle_core::{DType, Device, Tensor};

use super::{Comparison, operations, run};
use crate::error::Result;
use crate::ops::set::Set;

fn assert_all_pass(comparisons: &[Comparison]) {
    for comparison in comparisons {
        if std::env::var_os("PP_CHECK_SHOW").is_some() {
            println!("{:8.2} {comparison:?}", comparison.bound / comparison.error);
        }
        assert!(comparison.passes(), "{comparison:?}");
    }
}

#[test]
fn operations_on_the_cpu_are_within_their_bounds() -> Result<()> {
    for dtype in [DType::F32, DType::F64, DType::BF16] {
        assert_all_pass(&operations(dtype, &Device::Cpu)?);
    }
    Ok(())
}

/// What GPUs compute with, on the CPU.
#[test]
fn the_tensor_librarys_way_is_within_its_bounds_too() -> Result<()> {
    for dtype in [DType::F32, DType::F64, DType::BF16] {
        assert_all_pass(&run(Set::TENSORS, dtype, &Device::Cpu)?);
    }
    Ok(())
}

#[test]
fn other_number_types_are_refused() {
    assert!(operations(DType::F16, &Device::Cpu).unwrap_err().to_string().contains("F16"));
}

/// One operation after the other is done a little wrong; each time something is beyond its bound, in every number type.
#[test]
fn wrong_operations_are_found() -> Result<()> {
    fn scaled(x: Tensor) -> Result<Tensor> {
        Ok((x * 1.1)?)
    }
    let right = Set::TENSORS;
    let wrong = [
        Set { linear: |x, w, _| (Set::TENSORS.linear)(x, w, None), ..right },
        Set { linear_backward_weight: |_, _, _, _| Ok(()), ..right },
        Set { linear_backward_input: |dy, w| scaled((Set::TENSORS.linear_backward_input)(dy, w)?), ..right },
        Set { layer_norm: |x, gamma, beta, _| (Set::TENSORS.layer_norm)(x, gamma, beta, 1.0), ..right },
        Set { gelu: |x| Ok(x.relu()?), ..right },
        Set { gelu_backward: |x, dy| scaled((Set::TENSORS.gelu_backward)(x, dy)?), ..right },
        Set { fill_zero: |_| Ok(()), ..right },
        Set { add_assign: |_, _| Ok(()), ..right },
        Set { embedding_backward: |_, _, _, _| Ok(()), ..right },
        Set { cross_entropy_in_place: |logits, labels| (Set::TENSORS.cross_entropy)(logits, labels), ..right },
        Set { adamw: |_, _, _, _, _| Ok(()), ..right },
    ];
    for (at, wrong) in wrong.into_iter().enumerate() {
        for dtype in [DType::F32, DType::BF16] {
            let found = run(wrong, dtype, &Device::Cpu)?;
            assert!(found.iter().any(|comparison| !comparison.passes()), "operation {at} in {dtype:?}");
        }
    }
    Ok(())
}
