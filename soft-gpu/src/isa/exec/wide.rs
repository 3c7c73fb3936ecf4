//! Code compiled for AVX2 and FMA, used where the processor has them.

use super::wave::Wide;

/// Runs `f`, compiled for AVX2 and FMA if `wide` says that the processor has them. What is inlined into `f` is so, too.
#[inline(always)]
pub(super) fn widely<R>(wide: Wide, f: impl FnOnce() -> R) -> R {
    if wide.is_there() { with_avx2(wide, f) } else { f() }
}

/// Runs `f`, compiled for AVX2 and FMA, which have to be there.
#[inline(always)]
pub(super) fn with_avx2<R>(wide: Wide, f: impl FnOnce() -> R) -> R {
    #[cfg(target_arch = "x86_64")]
    {
        #[target_feature(enable = "avx2,fma")]
        fn run<R>(f: impl FnOnce() -> R) -> R {
            f()
        }
        assert!(wide.is_there(), "only called where AVX2 is");
        // SAFETY: the processor has AVX2 and FMA, which is what `Wide` stands for.
        unsafe { run(f) }
    }
    #[cfg(not(target_arch = "x86_64"))]
    f()
}
