//! Arguments of an ioctl as names and values, for traces and messages.

use std::borrow::Cow;

use super::constants::{
    AddressWatchMode, AllocFlags, CachePolicy, DbgTrapFlags, DbgTrapOverride, EventType, ExceptionCode,
    QueueType, RuntimeMode, SvmAttr, WaitResult, WaveLaunchMode,
};
use super::ioctl::{Ioctl, Ops, Struct};
use super::structs::Field;

/// A field of the arguments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Item {
    /// The uapi's name; fields of an operation's own struct and of attributes are written with a path
    /// (`body.exception_mask`, `attrs[2].value`).
    pub name: Cow<'static, str>,
    /// What it holds.
    pub value: Value,
    /// The uapi's name of the value, where it has one.
    pub meaning: Option<String>,
}

/// What a field holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// An unsigned number.
    Unsigned(u64),
    /// A signed number.
    Signed(i64),
    /// Anything else.
    Bytes(Vec<u8>),
}

/// The arguments of a call, field by field.
///
/// `args` is what the program passed, or what came back. Bytes that it lacks read as zero, as in the kernel;
/// bytes that no field covers are given as `extra`. Padding is left out while it is zero. No more than `args`
/// is looked at, however many attributes it announces.
#[must_use]
pub fn describe(ioctl: Ioctl, args: &[u8]) -> Vec<Item> {
    let decl = ioctl.decl();
    let mut items = Vec::new();
    let body = decl.ops.and_then(|ops| ops.select(args)).and_then(|op| op.body);
    for field in decl.args.fields {
        if field.name == "body" && body.is_some() {
            continue;
        }
        push(&mut items, "", field, 0, args);
    }
    name_operations(&mut items, decl.ops, args);
    if let Some((offset, own)) = body {
        own.fields.iter().for_each(|field| push(&mut items, "body.", field, offset, args));
    }
    let end = match decl.tail {
        Some(tail) => describe_tail(&mut items, decl.args.size, tail.element, tail.count.get(args), args),
        None => decl.args.size,
    };
    let extra = args.get(end..).unwrap_or_default();
    if !extra.is_empty() {
        items.push(Item { name: Cow::Borrowed("extra"), value: Value::Bytes(extra.to_vec()), meaning: None });
    }
    for item in items.iter_mut().filter(|item| item.meaning.is_none()) {
        item.meaning = meaning(ioctl, item);
    }
    items
}

/// The elements that `args` really holds, of `count` that it announces. Returns where they end.
fn describe_tail(items: &mut Vec<Item>, start: usize, element: Struct, count: u64, args: &[u8]) -> usize {
    let present = args.get(start..).unwrap_or_default().chunks_exact(element.size.max(1)).count();
    let count = usize::try_from(count).unwrap_or(usize::MAX).min(present);
    for index in 0..count {
        let prefix = format!("attrs[{index}].");
        for field in element.fields {
            push(items, &prefix, field, start + index * element.size, args);
        }
    }
    start + count * element.size
}

/// Adds the field at `base` in `args`.
fn push(items: &mut Vec<Item>, prefix: &str, field: &Field, base: usize, args: &[u8]) {
    let given = args.get(base + field.offset..).unwrap_or_default();
    let mut bytes: Vec<u8> = given.iter().copied().take(field.size).collect();
    bytes.resize(field.size, 0);
    let padding = field.name == "pad" || field.name.starts_with('_');
    if padding && bytes.iter().all(|byte| *byte == 0) {
        return;
    }
    let mut wide = [0; 8];
    wide.iter_mut().zip(&bytes).for_each(|(to, from)| *to = *from);
    let unsigned = u64::from_le_bytes(wide);
    let value = match field.ty {
        "u32" | "u64" => Value::Unsigned(unsigned),
        "i64" => Value::Signed(i64::from_le_bytes(wide)),
        "i32" => {
            let [a, b, c, d, ..] = wide;
            Value::Signed(i64::from(i32::from_le_bytes([a, b, c, d])))
        }
        _ => Value::Bytes(bytes),
    };
    let name = field.name.strip_suffix('_').unwrap_or(field.name);
    let name = if prefix.is_empty() { Cow::Borrowed(name) } else { Cow::Owned(format!("{prefix}{name}")) };
    items.push(Item { name, value, meaning: None });
}

/// Names the operation.
fn name_operations(items: &mut [Item], ops: Option<&'static Ops>, args: &[u8]) {
    let Some(ops) = ops else { return };
    let Some(op) = ops.select(args) else { return };
    if let Some(item) = items.iter_mut().find(|item| item.name == ops.selector.name) {
        item.meaning = Some(op.name.to_owned());
    }
}

/// The name of a value, where the field's type has names.
fn meaning(ioctl: Ioctl, item: &Item) -> Option<String> {
    let Value::Unsigned(value) = item.value else { return None };
    let value = u32::try_from(value).ok()?;
    let name: &str = &item.name;
    let named = |name: Option<&'static str>| name.map(str::to_owned);
    match (ioctl, name) {
        (Ioctl::CreateQueue, "queue_type") => named(QueueType(value).name()),
        (Ioctl::CreateEvent, "event_type") => named(EventType(value).name()),
        (Ioctl::WaitEvents, "wait_result") => named(WaitResult(value).name()),
        (Ioctl::SetMemoryPolicy, "default_policy" | "alternate_policy") => named(CachePolicy(value).name()),
        (Ioctl::AllocMemoryOfGpu, "flags") => Some(format!("{:?}", AllocFlags(value))),
        (Ioctl::RuntimeEnable, "mode_mask") => Some(format!("{:?}", RuntimeMode(value))),
        (Ioctl::DbgTrap, "body.override_mode") => named(DbgTrapOverride(value).name()),
        (Ioctl::DbgTrap, "body.launch_mode") => named(WaveLaunchMode(value).name()),
        (Ioctl::DbgTrap, "body.mode") => named(AddressWatchMode(value).name()),
        (Ioctl::DbgTrap, "body.exception_code") => named(ExceptionCode(value).name()),
        (Ioctl::DbgTrap, "body.flags") => Some(format!("{:?}", DbgTrapFlags(value))),
        (Ioctl::Svm, _) if name.starts_with("attrs[") && name.ends_with("].type") => {
            named(SvmAttr(value).name())
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use zerocopy::IntoBytes;

    use super::*;
    use crate::kfd::args::{AllocMemoryOfGpuArgs, SetXnackModeArgs};

    fn find<'a>(items: &'a [Item], name: &str) -> &'a Item {
        items.iter().find(|item| item.name == name).unwrap_or_else(|| panic!("{name} in {items:?}"))
    }

    #[test]
    fn fields_have_names_values_and_meanings() {
        let args = AllocMemoryOfGpuArgs { size: 0x2000, flags: 0x8000_0004, ..Default::default() };
        let items = describe(Ioctl::AllocMemoryOfGpu, args.as_bytes());
        assert_eq!(items.len(), 6);
        assert_eq!(find(&items, "size").value, Value::Unsigned(0x2000));
        let flags = find(&items, "flags");
        let meaning = "KFD_IOC_ALLOC_MEM_FLAGS_USERPTR | KFD_IOC_ALLOC_MEM_FLAGS_WRITABLE";
        assert_eq!(flags.meaning.as_deref(), Some(meaning));
    }

    #[test]
    fn signed_fields_keep_their_sign() {
        let args = SetXnackModeArgs { xnack_enabled: -1 };
        let items = describe(Ioctl::SetXnackMode, args.as_bytes());
        assert_eq!(find(&items, "xnack_enabled").value, Value::Signed(-1));
    }

    #[test]
    fn an_operation_shows_its_own_struct() {
        let mut args = vec![0; 32];
        args[4] = 8;
        args[8] = 0x40;
        args[16] = 3;
        let items = describe(Ioctl::DbgTrap, &args);
        assert_eq!(find(&items, "op").meaning.as_deref(), Some("KFD_IOC_DBG_TRAP_SET_NODE_ADDRESS_WATCH"));
        assert_eq!(find(&items, "body.address").value, Value::Unsigned(0x40));
        let mode = find(&items, "body.mode");
        assert_eq!(mode.meaning.as_deref(), Some("KFD_DBG_TRAP_ADDRESS_WATCH_MODE_ALL"));
        args[4] = 77;
        let items = describe(Ioctl::DbgTrap, &args);
        assert!(matches!(&find(&items, "body").value, Value::Bytes(bytes) if bytes.len() == 24));
    }

    /// S01: a count of attributes that the request does not hold costs nothing and shows what is there.
    #[test]
    fn s01_only_attributes_that_are_there_are_described() {
        let mut args = vec![0; 24 + 8];
        args[20..24].copy_from_slice(&0xffff_ffff_u32.to_le_bytes());
        args[24] = 5;
        args[28] = 2;
        let items = describe(Ioctl::Svm, &args);
        assert_eq!(find(&items, "nattr").value, Value::Unsigned(0xffff_ffff));
        assert_eq!(find(&items, "attrs[0].type").meaning.as_deref(), Some("KFD_IOCTL_SVM_ATTR_SET_FLAGS"));
        assert_eq!(find(&items, "attrs[0].value").value, Value::Unsigned(2));
        assert_eq!(items.len(), 6);
    }

    #[test]
    fn short_and_long_requests_are_shown_as_the_kernel_sees_them() {
        let items = describe(Ioctl::DestroyEvent, &[0x34, 0x12]);
        assert_eq!(items.len(), 1);
        assert_eq!(items[0].value, Value::Unsigned(0x1234));
        let items = describe(Ioctl::DestroyEvent, &[1, 0, 0, 0, 2, 0, 0, 0, 9]);
        assert_eq!(find(&items, "pad").value, Value::Unsigned(2));
        assert_eq!(find(&items, "extra").value, Value::Bytes(vec![9]));
    }

    proptest! {
        #[test]
        fn any_bytes_can_be_described(
            ioctl in proptest::sample::select(Ioctl::ALL), args in proptest::collection::vec(any::<u8>(), 0..300),
        ) {
            let items = describe(ioctl, &args);
            prop_assert!(items.len() <= ioctl.decl().args.fields.len() + 20 + args.len());
        }
    }
}
