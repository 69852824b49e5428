//! Events: what a caller waits for.
//!
//! A call of this plugin returns when its work is done, so that its events are all one, which is ready.
//! Others are made and set by the caller (`PJRT_Event_Create`, `PJRT_Event_Set`), or wait for it.

use std::ffi::c_void;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};

use super::abi::{Call, Flag, In, args};
use super::error::{Failure, Outcome};
use super::handles::{Handle, give, give_shared, objects};

/// Is told when an event is ready: the error, which becomes its own, and its own argument.
type Callback = unsafe extern "C" fn(Handle<Failure>, *mut c_void);

/// A callback and its argument.
struct Waiting(Callback, *mut c_void);

// SAFETY: C promises that the callback may come from any thread.
unsafe impl Send for Waiting {}

struct State {
    /// Whether it is ready, and how it went.
    result: Option<Outcome<()>>,
    waiting: Vec<Waiting>,
}

/// A `PJRT_Event`: what becomes ready once.
pub struct Event {
    state: Mutex<State>,
    ready: Condvar,
}

objects!(Event);

/// The event that is ready, which is never destroyed.
pub fn ready() -> Handle<Event> {
    static READY: OnceLock<Handle<Event>> = OnceLock::new();
    *READY.get_or_init(|| {
        let event = Event::new();
        event.set(Ok(()));
        event.handle()
    })
}

impl Event {
    /// One that is not ready.
    pub fn new() -> Arc<Event> {
        Arc::new(Event {
            state: Mutex::new(State {
                result: None,
                waiting: Vec::new(),
            }),
            ready: Condvar::new(),
        })
    }

    /// A handle of it.
    pub fn handle(self: &Arc<Event>) -> Handle<Event> {
        give_shared(self.clone())
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes it ready and says so; the first result stays.
    pub fn set(&self, result: Outcome<()>) -> bool {
        let mut state = self.lock();
        if state.result.is_some() {
            return false;
        }
        state.result = Some(result.clone());
        let waiting = std::mem::take(&mut state.waiting);
        drop(state);
        self.ready.notify_all();
        for waiting in waiting {
            waiting.tell(&result);
        }
        true
    }
}

impl Waiting {
    fn tell(&self, result: &Outcome<()>) {
        let error = match result {
            Ok(()) => Handle::null(),
            Err(failure) => give(failure.clone()),
        };
        // SAFETY: C promises that the callback takes its argument once, and an error it frees.
        unsafe { (self.0)(error, self.1) };
    }
}

args! {
    Destroy "PJRT_Event_Destroy" { event: Handle<Event> }
    IsReady "PJRT_Event_IsReady" { event: Handle<Event>, is_ready: Flag }
    GetError "PJRT_Event_Error" { event: Handle<Event> }
    Await "PJRT_Event_Await" { event: Handle<Event> }
    OnReady "PJRT_Event_OnReady" {
        event: Handle<Event>,
        callback: Option<Callback>,
        user_arg: *mut c_void,
    }
    Create "PJRT_Event_Create" { event: Handle<Event> }
    Set "PJRT_Event_Set" { event: Handle<Event>, error_code: i32, error_message: In<u8> }
}

impl Call for Destroy {
    fn call(&mut self) -> Outcome<()> {
        if self.event.pointer() != ready().pointer() {
            drop(self.event.destroy());
        }
        Ok(())
    }
}

impl Call for IsReady {
    fn call(&mut self) -> Outcome<()> {
        let is_ready = self.event.get("event")?.lock().result.is_some();
        self.is_ready = is_ready.into();
        Ok(())
    }
}

impl Call for GetError {
    fn call(&mut self) -> Outcome<()> {
        let result = self.event.get("event")?.lock().result.clone();
        result.unwrap_or_else(|| {
            Err(Failure::argument(
                "the event is not ready: it has no result yet",
            ))
        })
    }
}

impl Call for Await {
    fn call(&mut self) -> Outcome<()> {
        let event = self.event.get("event")?;
        let mut state = event.lock();
        loop {
            if let Some(result) = &state.result {
                return result.clone();
            }
            state = event
                .ready
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl Call for OnReady {
    fn call(&mut self) -> Outcome<()> {
        let callback = self
            .callback
            .ok_or_else(|| Failure::argument("the callback is null"))?;
        let waiting = Waiting(callback, self.user_arg);
        let event = self.event.get("event")?;
        let mut state = event.lock();
        match state.result.clone() {
            None => state.waiting.push(waiting),
            Some(result) => {
                drop(state);
                waiting.tell(&result);
            }
        }
        Ok(())
    }
}

impl Call for Create {
    fn call(&mut self) -> Outcome<()> {
        self.event = Event::new().handle();
        Ok(())
    }
}

impl Call for Set {
    fn call(&mut self) -> Outcome<()> {
        let event = self.event.get("event")?;
        let is_first = event.set(match self.error_code {
            0 => Ok(()),
            code => Err(Failure {
                code,
                message: String::from_utf8_lossy(self.error_message.get("the message")?).into(),
            }),
        });
        match is_first {
            true => Ok(()),
            false => Err(Failure::argument("the event is ready already")),
        }
    }
}
