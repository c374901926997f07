// The story of 08-embedding in Rust, over the C interface, without a crate.
use std::ffi::{c_char, c_void, CStr, CString};
use std::io::Write;
use std::process::exit;
use std::ptr::{null, null_mut};

// <tenon/llm_c.h>, as far as it is used here.
#[repr(C)]
struct Setting {
    name: *const c_char,
    value: *const c_char,
}

#[repr(C)]
struct Delta {
    size: u32,
    sample: u32,
    text: *const u8,
    text_bytes: usize,
    tokens: *const i32,
    token_count: usize,
}

#[repr(C)]
struct Request {
    size: u32,
    want: i32,
    text: *const u8,
    text_bytes: usize,
    tokens: *const i32,
    token_count: usize,
    messages: *const c_void,
    message_count: usize,
    settings: *const Setting,
    setting_count: usize,
    on_delta: Option<extern "C" fn(*mut c_void, *const Delta) -> i32>,
    on_end: Option<extern "C" fn(*mut c_void)>,
    user: *mut c_void,
}

#[link(name = "tenon")]
extern "C" {
    fn tenon_llm_error_message(error: *const c_void) -> *const c_char;
    fn tenon_llm_open(options: *const c_void, llm: *mut *mut c_void) -> *mut c_void;
    fn tenon_llm_close(llm: *mut c_void) -> *mut c_void;
    fn tenon_llm_submit(llm: *mut c_void, request: *const Request, call: *mut *mut c_void) -> *mut c_void;
    fn tenon_llm_call_wait(call: *mut c_void) -> *mut c_void;
    fn tenon_llm_call_release(call: *mut c_void) -> *mut c_void;
}

fn check(error: *mut c_void) {
    if error.is_null() {
        return;
    }
    let text = unsafe { CStr::from_ptr(tenon_llm_error_message(error)) };
    eprintln!("{}", text.to_string_lossy());
    exit(1);
}

// On the engine's thread.
extern "C" fn print(_user: *mut c_void, delta: *const Delta) -> i32 {
    let text = unsafe { std::slice::from_raw_parts((*delta).text, (*delta).text_bytes) };
    std::io::stdout().write_all(text).is_err() as i32 // not 0: nobody listens, so cancel
}

fn main() {
    let prompt = "Once upon a time";
    let name = CString::new("max_tokens").unwrap();
    let value = CString::new("24").unwrap();
    let settings = [Setting { name: name.as_ptr(), value: value.as_ptr() }];
    let request = Request {
        size: std::mem::size_of::<Request>() as u32,
        want: 0,
        text: prompt.as_ptr(),
        text_bytes: prompt.len(),
        tokens: null(),
        token_count: 0,
        messages: null(),
        message_count: 0,
        settings: settings.as_ptr(),
        setting_count: settings.len(),
        on_delta: Some(print),
        on_end: None,
        user: null_mut(),
    };
    let (mut llm, mut call) = (null_mut(), null_mut());
    unsafe {
        check(tenon_llm_open(null(), &mut llm));
        check(tenon_llm_submit(llm, &request, &mut call));
        check(tenon_llm_call_wait(call));
        check(tenon_llm_call_release(call));
        check(tenon_llm_close(llm));
    }
    println!();
}
