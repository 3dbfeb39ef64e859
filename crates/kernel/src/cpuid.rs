//! CPUID (x86): what the processor, or the hypervisor in its place, claims about itself.
//!
//! One leaf costs about 100 cycles on hardware and 1-70 us in a guest, where it traps. A hypervisor may
//! invent the answers, so all of it is "as claimed". On other architectures every answer is `None`.

/// The four registers that a leaf returns.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CpuidRegisters {
    pub eax: u32,
    pub ebx: u32,
    pub ecx: u32,
    pub edx: u32,
}

/// A leaf of this processor; `None` if it does not have this leaf.
#[cfg(target_arch = "x86_64")]
#[must_use]
pub fn leaf(leaf: u32, subleaf: u32) -> Option<CpuidRegisters> {
    use std::arch::x86_64::__cpuid_count;
    let top = __cpuid_count(leaf & 0xc000_0000, 0).eax;
    if leaf > top {
        return None;
    }
    let r = __cpuid_count(leaf, subleaf);
    Some(CpuidRegisters { eax: r.eax, ebx: r.ebx, ecx: r.ecx, edx: r.edx })
}

/// Always `None`: this architecture has no leaves.
#[cfg(not(target_arch = "x86_64"))]
#[must_use]
pub fn leaf(_leaf: u32, _subleaf: u32) -> Option<CpuidRegisters> {
    None
}

/// Name of the hypervisor, if CPUID reports one.
#[must_use]
pub fn hypervisor() -> Option<String> {
    const PRESENT: u32 = 1 << 31;
    let features = leaf(1, 0)?;
    (features.ecx & PRESENT != 0)
        .then(|| leaf(0x4000_0000, 0).map_or_else(|| "unknown".to_owned(), hypervisor_name))
}

/// The hypervisor name encoded in the registers of leaf 0x4000_0000.
#[must_use]
pub fn hypervisor_name(registers: CpuidRegisters) -> String {
    let CpuidRegisters { ebx, ecx, edx, .. } = registers;
    let bytes: Vec<u8> = [ebx, ecx, edx].into_iter().flat_map(u32::to_le_bytes).collect();
    let text = String::from_utf8_lossy(&bytes);
    let text = text.trim_matches(['\0', ' ']);
    match text {
        "KVMKVMKVM" => "KVM".to_owned(),
        "Microsoft Hv" => "Hyper-V".to_owned(),
        "VMwareVMware" => "VMware".to_owned(),
        "XenVMMXenVMM" => "Xen".to_owned(),
        "TCGTCGTCGTCG" => "QEMU".to_owned(),
        "bhyve bhyve" => "bhyve".to_owned(),
        "" => "unknown".to_owned(),
        other => other.escape_debug().to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        let spelled = |text: &[u8; 12]| {
            let word = |i: usize| u32::from_le_bytes(text[i..i + 4].try_into().unwrap());
            hypervisor_name(CpuidRegisters { eax: 0, ebx: word(0), ecx: word(4), edx: word(8) })
        };
        assert_eq!(spelled(b"KVMKVMKVM\0\0\0"), "KVM");
        assert_eq!(spelled(b"Microsoft Hv"), "Hyper-V");
        assert_eq!(spelled(b"other one\0\0\0"), "other one");
        assert_eq!(spelled(&[0; 12]), "unknown");
    }
}
