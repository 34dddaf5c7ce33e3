//! The self-test finds every kernel right, and sees each of them wrong.

use picoformer_core::selftest::{self, Kernel, LINES};
use picoformer_core::{Cpu, Error, Line};
use std::ffi::{CStr, c_char};
use std::ptr;

/// The self-test with a result of one kernel changed, the first time that the kernel is tested.
fn with_fault(cpu: Cpu, wrong: Kernel, change: impl Fn(&mut [f32])) -> Result<(), Error> {
    let mut room = vec![Line([f32::NAN; 16]); LINES];
    let mut changed = false;
    selftest::run_with(cpu, &mut room, &mut |kernel, result| {
        if kernel == wrong && !std::mem::replace(&mut changed, kernel == wrong) {
            change(result);
        }
    })
}

#[test]
fn every_kernel_is_right_on_every_backend_whatever_the_room_held() {
    for cpu in Cpu::all() {
        for fill in [0.0, f32::NAN, f32::INFINITY] {
            assert_eq!(selftest::run(cpu, &mut vec![Line([fill; 16]); LINES]), Ok(()), "{}", cpu.name());
        }
        let mut tested = Vec::new();
        let mut room = vec![Line::ZERO; LINES];
        selftest::run_with(cpu, &mut room, &mut |kernel, _| tested.push(kernel)).unwrap();
        assert!(Kernel::ALL.iter().all(|kernel| tested.contains(kernel)), "{tested:?}");
    }
}

#[test]
fn a_fault_of_any_kernel_is_seen_and_named() {
    for cpu in Cpu::all() {
        for kernel in Kernel::ALL {
            let named = Err(Error::Kernel(*kernel));
            assert_eq!(with_fault(cpu, *kernel, |x| x[0] += 0.1), named);
            assert_eq!(with_fault(cpu, *kernel, |x| *x.last_mut().unwrap() = f32::NAN), named);
            // A tile that was left out, lanes in another order, and a kernel that does nothing.
            assert_eq!(with_fault(cpu, *kernel, |x| x.fill(0.0)), named);
            // Of the token and its product there are but two.
            if *kernel != Kernel::Nearest {
                assert_eq!(with_fault(cpu, *kernel, swap_lanes), named, "{kernel:?}");
                assert_eq!(with_fault(cpu, *kernel, |x| x[3] = -x[3] - 0.01), named, "{kernel:?}");
            }
        }
    }
    assert_eq!(
        Error::Kernel(Kernel::LayerNorm).to_string(),
        "the kernel layer_norm gives wrong results on this CPU"
    );
}

/// Sixteen numbers in the middle, in another order.
fn swap_lanes(x: &mut [f32]) {
    let middle = x.len() / 2;
    x[middle - 8..middle + 8].rotate_left(4);
}

#[test]
fn a_line_less_is_refused() {
    let mut room = vec![Line::ZERO; LINES];
    assert_eq!(selftest::run(Cpu::baseline(), &mut room[1..]), Err(Error::Arena { need: LINES }));
}

#[test]
fn c_gets_the_same_answers() {
    use picoformer_core::ffi::{Code, pf_cpu_at, pf_selftest};
    let mut room = vec![Line::ZERO; LINES];
    let (floats, mut name): (*mut f32, *const c_char) = (room.as_mut_ptr().cast(), c"untouched".as_ptr());
    for at in 0..Cpu::all().count() {
        // SAFETY: so many floats are the room's, and the name is a place for a pointer.
        let code = unsafe { pf_selftest(pf_cpu_at(at), floats, 16 * LINES, &mut name) };
        assert_eq!(code, Code::Ok as i32);
    }
    // SAFETY: as above; fewer floats are used, or none.
    unsafe {
        assert_eq!(CStr::from_ptr(name), c"untouched");
        let of = |room, size, name| pf_selftest(pf_cpu_at(0), room, size, name);
        assert_eq!(of(floats, 16 * LINES - 1, &mut name), Code::Arena as i32);
        assert_eq!(of(floats.add(1), 16 * LINES, &mut name), Code::Align as i32);
        assert_eq!(of(ptr::null_mut(), 16 * LINES, &mut name), Code::Null as i32);
        assert_eq!(of(floats, 16 * LINES, ptr::null_mut()), Code::Null as i32);
    }
}
