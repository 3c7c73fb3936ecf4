//! VOPC: comparisons. Their names say the relation and the type, so the bodies are made from both.

use super::super::inst::Inst;
use super::f16::F16;
use super::float::{class16, class32, class64};
use super::lanes::compare;
use super::wave::Wave;
use super::{Body, Env, Flow, Line, Trap};

macro_rules! line {
    ($name:expr, |$a:ident: $ta:ty, $b:ident: $tb:ty| $body:expr) => {{
        fn run(w: &mut Wave, i: &Inst, _: &mut Env<'_>) -> Result<Flow, Trap> {
            compare(
                w,
                i,
                #[inline(always)]
                |$a: $ta, $b: $tb| $body,
            );
            Ok(Flow::Next)
        }
        ($name, run)
    }};
}

macro_rules! float {
    ($ty:ident, $t:ty, |$x:ident| $value:expr) => {{
        fn v($x: $t) -> impl PartialOrd + Copy {
            $value
        }
        [
            line!(concat!("f_", stringify!($ty)), |_a: $t, _b: $t| false),
            line!(concat!("lt_", stringify!($ty)), |a: $t, b: $t| v(a) < v(b)),
            line!(concat!("eq_", stringify!($ty)), |a: $t, b: $t| v(a) == v(b)),
            line!(concat!("le_", stringify!($ty)), |a: $t, b: $t| v(a) <= v(b)),
            line!(concat!("gt_", stringify!($ty)), |a: $t, b: $t| v(a) > v(b)),
            line!(concat!("lg_", stringify!($ty)), |a: $t, b: $t| v(a) < v(b) || v(a) > v(b)),
            line!(concat!("ge_", stringify!($ty)), |a: $t, b: $t| v(a) >= v(b)),
            line!(concat!("o_", stringify!($ty)), |a: $t, b: $t| v(a).partial_cmp(&v(b)).is_some()),
            line!(concat!("u_", stringify!($ty)), |a: $t, b: $t| v(a).partial_cmp(&v(b)).is_none()),
            line!(concat!("nge_", stringify!($ty)), |a: $t, b: $t| !(v(a) >= v(b))),
            line!(concat!("nlg_", stringify!($ty)), |a: $t, b: $t| !(v(a) < v(b) || v(a) > v(b))),
            line!(concat!("ngt_", stringify!($ty)), |a: $t, b: $t| !(v(a) > v(b))),
            line!(concat!("nle_", stringify!($ty)), |a: $t, b: $t| !(v(a) <= v(b))),
            line!(concat!("neq_", stringify!($ty)), |a: $t, b: $t| v(a) != v(b)),
            line!(concat!("nlt_", stringify!($ty)), |a: $t, b: $t| !(v(a) < v(b))),
            line!(concat!("tru_", stringify!($ty)), |_a: $t, _b: $t| true),
        ]
    }};
}

macro_rules! integer {
    ($ty:ident, $t:ty) => {
        [
            line!(concat!("f_", stringify!($ty)), |_a: $t, _b: $t| false),
            line!(concat!("lt_", stringify!($ty)), |a: $t, b: $t| a < b),
            line!(concat!("eq_", stringify!($ty)), |a: $t, b: $t| a == b),
            line!(concat!("le_", stringify!($ty)), |a: $t, b: $t| a <= b),
            line!(concat!("gt_", stringify!($ty)), |a: $t, b: $t| a > b),
            line!(concat!("ne_", stringify!($ty)), |a: $t, b: $t| a != b),
            line!(concat!("ge_", stringify!($ty)), |a: $t, b: $t| a >= b),
            line!(concat!("t_", stringify!($ty)), |_a: $t, _b: $t| true),
        ]
    };
}

/// The comparisons, by the full name; `v_cmpx` differs only in that it writes EXEC.
pub(super) fn comparisons() -> impl Iterator<Item = Line> {
    let floats: [[(&str, Body); 16]; 3] =
        [float!(f16, F16, |x| x.to_f32()), float!(f32, f32, |x| x), float!(f64, f64, |x| x)];
    let integers: [[(&str, Body); 8]; 6] = [
        integer!(i16, i16),
        integer!(u16, u16),
        integer!(i32, i32),
        integer!(u32, u32),
        integer!(i64, i64),
        integer!(u64, u64),
    ];
    let relations: Vec<(&str, Body)> =
        floats.into_iter().flatten().chain(integers.into_iter().flatten()).collect();
    super::super::table::TABLES.into_iter().flat_map(|(_, table)| table).filter_map(move |op| {
        let relation = op.name.strip_prefix("v_cmp_").or_else(|| op.name.strip_prefix("v_cmpx_"))?;
        let (_, body) = relations.iter().find(|(name, _)| *name == relation)?;
        Some((op.name, *body))
    })
}

#[rustfmt::skip]
pub(super) const EXTRA: &[Line] = &[
    line!("v_cmp_class_f16", |a: F16, b: u32| class16(a.0, b)),
    line!("v_cmpx_class_f16", |a: F16, b: u32| class16(a.0, b)),
    line!("v_cmp_class_f32", |a: f32, b: u32| class32(a.to_bits(), b)),
    line!("v_cmpx_class_f32", |a: f32, b: u32| class32(a.to_bits(), b)),
    line!("v_cmp_class_f64", |a: f64, b: u32| class64(a.to_bits(), b)),
    line!("v_cmpx_class_f64", |a: f64, b: u32| class64(a.to_bits(), b)),
];
