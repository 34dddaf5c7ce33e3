//! The one place that asks the CPU what it has, without std.

/// A set of the constants below.
pub(super) type Features = u32;

#[cfg(all(target_arch = "aarch64", target_feature = "neon", target_endian = "little"))]
pub(super) use arm::*;
#[cfg(all(target_arch = "x86_64", target_feature = "sse2"))]
pub(super) use x86::*;

/// What the CPU has: nothing beyond its compile target.
#[cfg(not(any(
    all(target_arch = "x86_64", target_feature = "sse2"),
    all(target_arch = "aarch64", target_feature = "neon", target_endian = "little")
)))]
pub(super) fn features() -> Features {
    0
}

#[cfg(all(target_arch = "aarch64", target_feature = "neon", target_endian = "little"))]
mod arm {
    use super::Features;

    /// SDOT.
    pub(in super::super) const DOT: Features = 1;

    /// What the CPU has; where the operating system cannot be asked, what the compile target has.
    pub(in super::super) fn features() -> Features {
        let found = cfg!(target_feature = "dotprod");
        #[cfg(any(target_os = "linux", target_os = "android"))]
        let found = found || {
            unsafe extern "C" {
                safe fn getauxval(what: core::ffi::c_ulong) -> core::ffi::c_ulong;
            }
            // AT_HWCAP, and its bit HWCAP_ASIMDDP.
            getauxval(16) >> 20 & 1 == 1
        };
        if found { DOT } else { 0 }
    }
}

#[cfg(all(target_arch = "x86_64", target_feature = "sse2"))]
mod x86 {
    use super::Features;
    use core::arch::x86_64::{__cpuid, __cpuid_count, _xgetbv};

    /// AVX2 and FMA.
    pub(in super::super) const AVX2: Features = 1;
    /// AVX-VNNI: 256 bits.
    pub(in super::super) const AVX_VNNI: Features = 2;
    /// AVX-512F.
    pub(in super::super) const AVX512: Features = 4;
    /// AVX512-VNNI.
    pub(in super::super) const AVX512_VNNI: Features = 8;

    #[target_feature(enable = "xsave")]
    fn saved_registers() -> u64 {
        // SAFETY: the caller has seen OSXSAVE, so the instruction is there.
        unsafe { _xgetbv(0) }
    }

    /// What the CPU has and the operating system saves; nothing where there may be neither.
    pub(in super::super) fn features() -> Features {
        if cfg!(any(target_os = "none", target_os = "uefi", target_env = "sgx", miri)) {
            return 0;
        }
        let bit = |x: u32, n: u32| x >> n & 1 == 1;
        if __cpuid(0).eax < 7 {
            return 0;
        }
        let (leaf1, leaf7) = (__cpuid(1), __cpuid_count(7, 0));
        let (fma, xsave, osxsave) = (bit(leaf1.ecx, 12), bit(leaf1.ecx, 26), bit(leaf1.ecx, 27));
        if !(fma && xsave && osxsave && bit(leaf7.ebx, 5)) {
            return 0;
        }
        // SAFETY: CPUID says that XSAVE is there and that the operating system uses it.
        let saved = unsafe { saved_registers() };
        if saved & 0x6 != 0x6 {
            return 0;
        }
        let mut found = AVX2;
        if leaf7.eax >= 1 && bit(__cpuid_count(7, 1).eax, 4) {
            found |= AVX_VNNI;
        }
        if bit(leaf7.ebx, 16) && saved & 0xe6 == 0xe6 {
            found |= AVX512 | if bit(leaf7.ecx, 11) { AVX512_VNNI } else { 0 };
        }
        found
    }
}
