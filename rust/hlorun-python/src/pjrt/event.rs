//! Events: what a caller waits for.
//!
//! A call of this plugin returns when its work is done, so that its events are all one, which is ready.
//! Others are made and set by the caller (`PJRT_Event_Create`, `PJRT_Event_Set`), or wait for it.

use std::ffi::c_void;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use super::abi::{Call, Flag, In, Ref, args, give};
use super::error::{Failure, Outcome};

/// Is told when an event is ready: the error, which becomes its own, and its own argument.
type Callback = unsafe extern "C" fn(*mut Failure, *mut c_void);

/// A callback and its argument.
struct Waiting(Callback, *mut c_void);

// SAFETY: C promises that the callback may come from any thread.
unsafe impl Send for Waiting {}

struct State {
    /// Whether it is ready, and how it went.
    result: Option<Outcome<()>>,
    waiting: Vec<Waiting>,
}

/// What becomes ready once.
pub struct Event {
    state: Mutex<State>,
    ready: Condvar,
}

/// A `PJRT_Event`.
pub struct EventHandle(Option<Arc<Event>>);

/// The event that is ready.
static READY: EventHandle = EventHandle(None);

/// A handle of the event that is ready.
pub fn ready() -> *const EventHandle {
    &raw const READY
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
    pub fn handle(self: &Arc<Event>) -> *const EventHandle {
        give(EventHandle(Some(self.clone())))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes it ready; the first result stays.
    pub fn set(&self, result: Outcome<()>) {
        let mut state = self.lock();
        if state.result.is_some() {
            return;
        }
        state.result = Some(result.clone());
        let waiting = std::mem::take(&mut state.waiting);
        drop(state);
        self.ready.notify_all();
        for waiting in waiting {
            waiting.tell(&result);
        }
    }
}

impl Waiting {
    fn tell(&self, result: &Outcome<()>) {
        let error = match result {
            Ok(()) => std::ptr::null_mut(),
            Err(failure) => give(failure.clone()),
        };
        // SAFETY: C promises that the callback takes its argument once, and an error it frees.
        unsafe { (self.0)(error, self.1) };
    }
}

args! {
    Destroy "PJRT_Event_Destroy" { event: Ref<EventHandle> }
    IsReady "PJRT_Event_IsReady" { event: Ref<EventHandle>, is_ready: Flag }
    GetError "PJRT_Event_Error" { event: Ref<EventHandle> }
    Await "PJRT_Event_Await" { event: Ref<EventHandle> }
    OnReady "PJRT_Event_OnReady" {
        event: Ref<EventHandle>,
        callback: Option<Callback>,
        user_arg: *mut c_void,
    }
    Create "PJRT_Event_Create" { event: *const EventHandle }
    Set "PJRT_Event_Set" { event: Ref<EventHandle>, error_code: i32, error_message: In<u8> }
}

impl Call for Destroy {
    fn call(&mut self) -> Outcome<()> {
        if !std::ptr::eq(self.event.pointer(), ready()) {
            // SAFETY: C destroys a handle once.
            drop(unsafe { self.event.take() });
        }
        Ok(())
    }
}

impl Call for IsReady {
    fn call(&mut self) -> Outcome<()> {
        let event = self.event.get("event")?;
        let is_ready = event.0.as_ref().is_none_or(|e| e.lock().result.is_some());
        self.is_ready = is_ready.into();
        Ok(())
    }
}

impl Call for GetError {
    fn call(&mut self) -> Outcome<()> {
        match &self.event.get("event")?.0 {
            None => Ok(()),
            Some(event) => event.lock().result.clone().unwrap_or_else(|| {
                Err(Failure::argument(
                    "the event is not ready: it has no result yet",
                ))
            }),
        }
    }
}

impl Call for Await {
    fn call(&mut self) -> Outcome<()> {
        let Some(event) = &self.event.get("event")?.0 else {
            return Ok(());
        };
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
        let Some(event) = &self.event.get("event")?.0 else {
            waiting.tell(&Ok(()));
            return Ok(());
        };
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
        let Some(event) = &self.event.get("event")?.0 else {
            return Err(Failure::argument("the event is ready already"));
        };
        event.set(match self.error_code {
            0 => Ok(()),
            code => Err(Failure {
                code,
                message: String::from_utf8_lossy(self.error_message.get("the message")?).into(),
            }),
        });
        Ok(())
    }
}
