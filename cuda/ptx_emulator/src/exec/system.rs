//! Calls of functions that the driver supplies.

use super::bits::Bits;
use super::grid::Exec;
use super::printf;
use super::row::Flow;
use super::space::Access;
use super::thread::Cx;
use crate::error::Cause;
use crate::instr::{Call, Callee, Instr, Space, System};

/// A text must end within this many bytes.
const MAX_TEXT: u64 = 1 << 20;

impl Cx<'_> {
    /// `call`.
    pub fn call(&mut self, i: &Instr) -> Exec<Flow> {
        match &i.more().call {
            Some(call @ Call { callee: Callee::System(system), .. }) => {
                self.system(*system, call).map(|()| Flow::Next)
            }
            _ => Ok(Flow::Call),
        }
    }

    /// Calls `system`; arguments and return value are in the caller's parameters.
    fn system(&mut self, system: System, call: &Call) -> Exec {
        self.grid.note_store();
        let arg = |index: usize| -> Exec<u64> {
            let range = call.args[index];
            let bits = self.frame.params.load(range.offset as usize, range.bytes as usize);
            if bits.undefined == 0 {
                return Ok(bits.value);
            }
            Err(undefined(format!("argument {index} of the call")))
        };
        let value = match system {
            System::Malloc => {
                let bytes = arg(0)?;
                self.grid.driver.heap.borrow_mut().malloc(bytes)
            }
            System::Free => {
                let block = arg(0)?;
                self.grid.driver.heap.borrow_mut().free(block)?;
                return Ok(());
            }
            System::Vprintf => {
                let (format, values) = (arg(0)?, arg(1)?);
                let (text, count) = printf::format(self, format, values)?;
                self.grid.driver.output.borrow_mut().extend(text);
                count
            }
            System::AssertFail => {
                let (message, file, line, function) = (arg(0)?, arg(1)?, arg(2)?, arg(3)?);
                let [message, file, function] = [message, file, function].map(|at| self.c_text(at));
                let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
                let (message, file, function) = (text(message?), text(file?), text(function?));
                return Err(Cause::Assert { message, file, line: line as u32, function }.into());
            }
        };
        if let Some(range) = call.result {
            self.frame.params.store(range.offset as usize, range.bytes as usize, Bits::new(value));
        }
        Ok(())
    }

    /// Loads `bytes` bytes at a generic address.
    pub fn read(&self, address: u64, bytes: u64) -> Exec<u64> {
        let place = self.place_of(Space::Generic, address, bytes, Access::Load)?;
        let bits = self.load(place, bytes as usize);
        if bits.undefined == 0 {
            return Ok(bits.value);
        }
        Err(undefined(format!("memory at {address:#x}")))
    }

    /// The bytes from a generic address up to a NUL.
    pub fn c_text(&self, address: u64) -> Exec<Vec<u8>> {
        let mut text = Vec::new();
        for at in 0..MAX_TEXT {
            match self.read(address + at, 1)? {
                0 => return Ok(text),
                byte => text.push(byte as u8),
            }
        }
        Err(Cause::Unsupported(format!("a text of over {MAX_TEXT} bytes")).into())
    }
}

fn undefined(what: String) -> Box<Cause> {
    Cause::UndefinedForDriver(what).into()
}
