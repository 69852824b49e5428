//! The function of a scalar program: its blocks, jumps, the way in and the ways out.
//!
//! In: scalar code, and what of it is kept in registers ([`super::cells`]). Out: Cranelift's form
//! of a function. Each operation's instructions are made by [`super::elements`] and
//! [`super::moves`].

use std::collections::BTreeMap;

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{
    self, AbiParam, Block, Function, InstBuilder, MemFlags, SigRef, Signature, StackSlot, Value,
    types,
};
use cranelift_frontend::{FunctionBuilder, FunctionBuilderContext, Switch, Variable};
use cranelift_jit::JITModule;
use cranelift_module::Module;
use hlorun_kernels::scalar_bytecode::Kind;
use rustc_hash::FxHashMap;

use super::calls;
use super::cells::{Cells, targets};
use super::elements;
use super::forms::Form;
use super::registers;
use crate::plan::cost::machine_code::FUEL;
use crate::plan::thunk::Thunk;
use crate::plan::thunk::scalar_bytecode::{Code, Place, ScalarOp, ScalarProgram};

/// The signature of [`super::Entry`].
pub fn signature(module: &JITModule) -> Signature {
    let mut signature = module.make_signature();
    signature.params = vec![AbiParam::new(types::I64); 4];
    signature.returns = vec![AbiParam::new(types::I32)];
    signature
}

/// Makes the function; `None` where it cannot be.
pub fn function(
    prepared: &ScalarProgram,
    entry: usize,
    outside: &[&Thunk],
    module: &JITModule,
    function: &mut Function,
    context: &mut FunctionBuilderContext,
) -> Option<()> {
    let cells = Cells::of(prepared, entry, outside)?;
    let builder = FunctionBuilder::new(function, context);
    let mut emitter = Emitter::new(prepared, &cells, module, builder);
    emitter.way_in(entry)?;
    for at in 0..prepared.ops.len() {
        emitter.begin(at);
        emitter.operation(at)?;
    }
    emitter.b.seal_all_blocks();
    emitter.b.finalize();
    Some(())
}

/// An element of the scratch that is in a register.
#[derive(Clone, Copy)]
pub(super) struct Held {
    pub value: Value,
    /// The scratch does not hold it yet.
    pub is_dirty: bool,
}

/// The function so far.
pub(super) struct Emitter<'e> {
    pub prepared: &'e ScalarProgram,
    pub cells: &'e Cells,
    pub b: FunctionBuilder<'e>,
    /// By cell.
    pub variables: Vec<Variable>,
    /// By allocation.
    pub bases: FxHashMap<u32, Value>,
    pub scratch: Value,
    pub known: Value,
    pub context: Value,
    /// By byte of the scratch. Scalar code carries nothing in it across a jump.
    pub held: BTreeMap<usize, Held>,
    /// Masks of truth values of blocks; none is used where a jump may skip its instructions.
    pub masks: FxHashMap<Value, Value>,
    /// Bytes that indices have added up to.
    pub moved: Option<Value>,
    /// Room for elements on their way to a kernel and back.
    pub passing: [Option<StackSlot>; 4],
    signatures: FxHashMap<(usize, bool), SigRef>,
    convention: cranelift_codegen::isa::CallConv,
    fuel: Variable,
    /// By operation that leads.
    blocks: FxHashMap<usize, Block>,
    failed: Block,
    /// The current block has its last instruction.
    is_over: bool,
}

impl<'e> Emitter<'e> {
    fn new(
        prepared: &'e ScalarProgram,
        cells: &'e Cells,
        module: &JITModule,
        mut b: FunctionBuilder<'e>,
    ) -> Emitter<'e> {
        let first = b.create_block();
        b.append_block_params_for_function_params(first);
        b.switch_to_block(first);
        let parameters = b.block_params(first).to_vec();
        let failed = b.create_block();
        b.set_cold_block(failed);
        let leads = cells.leads.iter().enumerate().filter(|(_, leads)| **leads);
        let blocks = leads.map(|(at, _)| (at, b.create_block())).collect();
        let variables = cells.cells.iter().map(|cell| b.declare_var(cell.ty));
        let variables = variables.collect();
        let fuel = b.declare_var(types::I64);
        let bases = cells.allocations.iter().map(|&allocation| {
            let offset = i32::try_from(allocation as usize * size_of::<*mut u8>());
            let flags = MemFlags::trusted().with_readonly();
            let offset = offset.unwrap_or_default();
            (
                allocation,
                b.ins().load(types::I64, flags, parameters[0], offset),
            )
        });
        Emitter {
            prepared,
            cells,
            variables,
            bases: bases.collect(),
            scratch: parameters[1],
            known: parameters[2],
            context: parameters[3],
            held: BTreeMap::new(),
            masks: FxHashMap::default(),
            moved: None,
            passing: [None; 4],
            signatures: FxHashMap::default(),
            convention: module.isa().default_call_conv(),
            fuel,
            blocks,
            failed,
            is_over: false,
            b,
        }
    }

    /// Brings cells into registers and goes to the operation where the code is entered.
    fn way_in(&mut self, entry: usize) -> Option<()> {
        for at in 0..self.cells.cells.len() {
            let cell = &self.cells.cells[at];
            if cell.is_entered {
                let value = self.load_place(cell.place, cell.ty)?;
                self.b.def_var(self.variables[at], value);
            }
        }
        let fuel = self.b.ins().iconst(types::I64, FUEL);
        self.b.def_var(self.fuel, fuel);
        let block = *self.blocks.get(&entry)?;
        self.b.ins().jump(block, &[]);
        self.b.switch_to_block(self.failed);
        let leave = self.b.ins().iconst(types::I32, i64::from(calls::LEAVE));
        self.b.ins().return_(&[leave]);
        self.is_over = true;
        Some(())
    }

    /// Before the operation `at`.
    fn begin(&mut self, at: usize) {
        if let Some(&block) = self.blocks.get(&at) {
            if !self.is_over {
                self.b.ins().jump(block, &[]);
            }
            self.b.switch_to_block(block);
            self.is_over = false;
            self.held.clear();
            self.masks.clear();
            self.moved = None;
        }
    }

    fn operation(&mut self, at: usize) -> Option<()> {
        if self.is_over {
            // Nothing goes there.
            return Some(());
        }
        let op = &self.prepared.ops[at];
        let form = self.cells.forms[at];
        if form.is_in_place() {
            self.settle_for(op, form)?;
        }
        match form {
            Form::Control => self.control(at, op),
            Form::Index => self.index(op),
            Form::Lanes => self.lanes(op),
            Form::Passed => self.passed(op),
            Form::Kernel => self.kernel(op),
            Form::Fold => self.fold(op),
            Form::KernelFold => self.kernel_fold(op),
            Form::Moves => self.moves(op),
            Form::Bytes => self.bytes(op),
            Form::Terms => self.terms(op),
            Form::KernelProduct => self.kernel_product(op),
            Form::KernelChoice => self.kernel_choice(op),
        }
    }

    fn control(&mut self, at: usize, op: &ScalarOp) -> Option<()> {
        let Code::Function(function) = op.code else {
            return None;
        };
        let targets = targets(self.prepared, at);
        match function.kind {
            Kind::End => {
                self.way_out()?;
                let on = self.b.ins().iconst(types::I32, i64::from(calls::GO_ON));
                self.b.ins().return_(&[on]);
                self.is_over = true;
            }
            Kind::Jump => {
                // A jump to the next operation is none, unless others go there too.
                if targets[0] != at + 1 {
                    let block = *self.blocks.get(&targets[0])?;
                    self.b.ins().jump(block, &[]);
                    self.is_over = true;
                }
            }
            Kind::Back => {
                let block = *self.blocks.get(&targets[0])?;
                self.back(block, op.n)?;
            }
            Kind::BackIf | Kind::BackIfCompare(..) => {
                let goes_back = self.condition(op, function.kind)?;
                let back = self.b.create_block();
                let on = *self.blocks.get(&targets[1])?;
                self.b.ins().brif(goes_back, back, &[], on, &[]);
                self.b.switch_to_block(back);
                let block = *self.blocks.get(&targets[0])?;
                self.back(block, op.n)?;
            }
            Kind::JumpIfZero => {
                let value = self.read(op.operands[0], types::I8)?;
                let (zero, other) = (
                    *self.blocks.get(&targets[0])?,
                    *self.blocks.get(&targets[1])?,
                );
                self.b.ins().brif(value, other, &[], zero, &[]);
                self.is_over = true;
            }
            Kind::Switch => {
                // What is negative is no case either.
                let value = self.read(op.operands[0], types::I32)?;
                let mut switch = Switch::new();
                for (case, target) in targets.iter().enumerate() {
                    switch.set_entry(case as u128, *self.blocks.get(target)?);
                }
                let last = *self.blocks.get(targets.last()?)?;
                switch.emit(&mut self.b, value, last);
                self.is_over = true;
            }
            Kind::Outside => {
                let number = self.b.ins().iconst(types::I64, op.x);
                self.call_or_leave(calls::outside as *const () as usize, &[number]);
            }
            _ => return None,
        }
        Some(())
    }

    /// Whether a jump back is taken.
    fn condition(&mut self, op: &ScalarOp, kind: Kind) -> Option<Value> {
        let Kind::BackIfCompare(direction, dtype) = kind else {
            return self.read(op.operands[0], types::I8);
        };
        let ty = registers::register(dtype)?;
        let a = self.read(op.operands[0], ty)?;
        let b = self.read(op.operands[1], ty)?;
        elements::compare(&mut self.b, direction, dtype, a, b)
    }

    /// Jumps back, if the run goes on.
    fn back(&mut self, target: Block, work: usize) -> Option<()> {
        let fuel = self.b.use_var(self.fuel);
        let fuel = self.b.ins().iadd_imm(fuel, -i64::try_from(work).ok()?);
        self.b.def_var(self.fuel, fuel);
        let look = self.b.create_block();
        self.b.set_cold_block(look);
        let is_empty = self.b.ins().icmp_imm(IntCC::SignedLessThan, fuel, 0);
        self.b.ins().brif(is_empty, look, &[], target, &[]);
        self.b.switch_to_block(look);
        // A call leaves no register as it was. What the next trip needs waits at its place, so that
        // nothing has to wait on the stack where the loop goes on without the call.
        self.way_out()?;
        self.call_or_leave(calls::check as *const () as usize, &[]);
        self.bring_carried()?;
        let fuel = self.b.ins().iconst(types::I64, FUEL);
        self.b.def_var(self.fuel, fuel);
        self.b.ins().jump(target, &[]);
        self.is_over = true;
        Some(())
    }

    /// Writes what trips hand on to its places.
    fn way_out(&mut self) -> Option<()> {
        for at in 0..self.cells.cells.len() {
            let cell = &self.cells.cells[at];
            if cell.is_carried && cell.is_written {
                let value = self.b.use_var(self.variables[at]);
                self.store_place(value, cell.place)?;
            }
        }
        Some(())
    }

    /// Brings what trips hand on back into registers.
    fn bring_carried(&mut self) -> Option<()> {
        for at in 0..self.cells.cells.len() {
            let cell = &self.cells.cells[at];
            if cell.is_carried {
                let value = self.load_place(cell.place, cell.ty)?;
                self.b.def_var(self.variables[at], value);
            }
        }
        Some(())
    }

    /// Calls what may end the run, with the context before `arguments`.
    fn call_or_leave(&mut self, function: usize, arguments: &[Value]) {
        let mut all = vec![self.context];
        all.extend_from_slice(arguments);
        let status = self.call(function, &all, true);
        let on = self.b.create_block();
        if let Some(status) = status {
            self.b.ins().brif(status, self.failed, &[], on, &[]);
        } else {
            self.b.ins().jump(on, &[]);
        }
        self.b.switch_to_block(on);
    }

    /// Calls a function of 64-bit arguments, which may return 32 bits.
    pub(super) fn call(
        &mut self,
        function: usize,
        arguments: &[Value],
        returns: bool,
    ) -> Option<Value> {
        let key = (arguments.len(), returns);
        let known = self.signatures.get(&key).copied();
        let signature = known.unwrap_or_else(|| {
            let mut signature = Signature::new(self.convention);
            signature.params = vec![AbiParam::new(types::I64); arguments.len()];
            signature.returns = vec![AbiParam::new(types::I32); usize::from(returns)];
            self.b.import_signature(signature)
        });
        self.signatures.insert(key, signature);
        let callee = self.b.ins().iconst(types::I64, function as i64);
        let call = self.b.ins().call_indirect(signature, callee, arguments);
        self.b.inst_results(call).first().copied()
    }

    /// An address or a length.
    pub(super) fn number(&mut self, value: usize) -> Value {
        self.b.ins().iconst(types::I64, value as i64)
    }

    /// The place that a constant of the code stands at, when it is known.
    pub(super) fn known_bytes(&self, place: Place, bytes: usize) -> Option<u64> {
        let Place::Known(offset) = place else {
            return None;
        };
        let line = self.prepared.known.get(offset / LINE)?;
        let found = line.0.get(offset % LINE..offset % LINE + bytes)?;
        let mut value = [0; 8];
        value.get_mut(..bytes)?.copy_from_slice(found);
        Some(u64::from_le_bytes(value))
    }
}

/// Bytes of a line of what is known.
const LINE: usize = size_of::<crate::plan::thunk::small_loop::Line>();

/// Flags of every access to the program's memory: it is there, and may be unaligned.
pub(super) fn flags() -> ir::MemFlags {
    MemFlags::new().with_notrap()
}
