//! Deliberate faults: legality conditions that a test can make lie.
//!
//! Each condition under which memory is shared or work is moved has a name here. A test switches
//! one off for its own thread, plans a module for which the condition matters, and asks that the
//! plan checker, the shadow run or the comparison of devices says so. Outside unit tests
//! [`holds`] is its second argument.

/// A condition of the plan.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    /// A member of a group reads of the group's results no index and nothing of other rows.
    GroupReadsOtherRows,
    /// A start index is no result of the group.
    GroupReadsIndex,
    /// An initial value or a product's right operand is no result of the group.
    GroupReadsShared,
    /// A thunk that runs before the group reads nothing that it writes.
    PrecedesItsOperand,
    /// A value in scratch is touched by members only.
    ScratchReadOutside,
    /// An input that a member writes over is read by earlier members in order.
    GroupReusesInput,
    /// An input that a member writes over is read by no later one.
    GroupReusesLiveInput,
    /// A loop reads all of a tile before it writes it.
    LoopReadsAfterWrite,
    /// An input that a loop writes over is read in order only.
    LoopReusesInput,
    /// Buffers that become one hold no two live values at once.
    JoinsLiveBuffers,
    /// The caller's memory and constants are not written.
    WritesForeignMemory,
    /// Buffers that are needed at the same time lie apart.
    PacksLiveBuffers,
    /// What reuses an output's memory is dead when the output is written.
    ReusesLiveOutput,
    /// What a trip starts from is kept until the trip has read it.
    StateDiesEarly,
    /// What the next trip of a loop reads is kept to the end of its body.
    DiesInsideLoop,
    /// What is read after a conditional lives through those of its branches that do not replace it.
    DiesInsideBranch,
    /// Of loops of a group that become one, the second reads nothing written between them.
    MergesDependentLoops,
    /// Of neighbouring loops that become one, the second reads nothing written between them, and of the first one's
    /// results the same element only.
    JoinsDependentLoops,
    /// A result that a merged loop does not store is read by nobody else.
    ForgetsReadResult,
    /// Scalar code folds the values of a reduction in the order in which the run of its thunk does.
    FoldsInOtherOrder,
    /// The pairs of a row are chosen among in any order only where the choice is a total order.
    ChoosesInAnyOrder,
    /// Scalar code leaves for the thunks that it cannot run.
    ScalarCodeSkipsThunk,
    /// An input whose rows are read where they lie has the elements of a row side by side, or one for all of it.
    ReadsOtherRows,
    /// A loop over rows whose result takes the place of an input reads all that a block of columns needs before another block,
    /// which shares columns, is written.
    ReadsReplacedElements,
    /// An input whose rows are folded in one pass has the elements of a row side by side, or one for all of it.
    FoldsScatteredRows,
    /// A thunk that is prepared for the trips of a loop holds nothing of its inputs from one trip to the next.
    HoldsOldInputs,
    /// Machine code stores what registers hold of the scratch before a part of it is read with other bytes.
    ReadsBehindRegisters,
    /// Machine code looks whether a shift is by less than the width.
    ShiftsByWidth,
    /// A value computed once is the same on every device.
    SharesVaryingValue,
    /// A collective whose result is the same everywhere spans all devices.
    SharesGroupResult,
    /// What is computed once does not ask which device it runs on.
    SharesDeviceId,
    /// Of two equal instructions one is enough only where they have no effect.
    MergesEffects,
    /// What moves out of a loop is made of what never changes in it.
    MovesVaryingValue,
    /// A loop's element that is taken for its initial value never changes.
    FixesChangingState,
    /// A row of a loop's output is made of the rows of its inputs that have the same index.
    MapsOtherRows,
    /// State that is read where it lies before a loop is handed on unchanged by every trip.
    HandsOnChangedState,
    /// An update in place reads of its operand the elements that it writes, each before it is written, or others.
    UpdatesWhatIsRead,
    /// A conversion that is undone lost nothing.
    ForgetsRounding,
    /// Values that are repeated in other ways do not stand for each other before they are repeated.
    RepeatsUnalike,
    /// A window holds one element.
    ReadsOneOfMany,
    /// Windows whose results are reduced share no element.
    FoldsOverlappingWindows,
    /// A stable sort keeps keys that compare as equal in their order, whatever their bits.
    ReordersTies,
    /// Indices of fewer bits hold all of a reduction's.
    CutsIndices,
    /// Windows that are combined part by part are the same or share no element.
    CombinesLooseParts,
    /// An index that is compared with those of an array is one of them.
    UpdatesOutside,
    /// An update happens where the selection takes the updated array.
    SelectsOldUpdates,
    /// A kernel selects the pairs that the reducer does.
    SelectsOtherPair,
    /// Coordinates that become a linear index are inside.
    JoinsLooseCoordinates,
    /// A gather that takes up a transpose keeps the order of its windows, and that of their dimensions.
    TurnsWindows,
    /// What is shifted instead of divided is nowhere negative.
    ShiftsNegativeNumbers,
    /// A window that is loaded in one piece lies in one piece.
    GathersApart,
    /// Two operations share a packed constant only if both need it packed in the same way.
    SharesOtherPacking,
    /// What the first steps of a loop read is there when the product runs whose epilogue they become.
    EpilogueReadsLater,
    /// Of two products that a loop joins, the one that stays reads nothing of the one that moves.
    EpilogueReadsMoved,
    /// A product whose result becomes that of a loop is read by that loop alone.
    EpilogueForgetsResult,
    /// An operand of an epilogue lies in memory as the result does.
    EpilogueTurnsOperand,
    /// A product that adds to its result is declared to read it.
    DeclaresUpdateAsWrite,
}

#[cfg(test)]
thread_local! {
    static ACTIVE: std::cell::Cell<Option<Fault>> = const { std::cell::Cell::new(None) };
    static LIES: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

/// Whether `condition` holds, or is taken to hold by the fault a test has switched on.
#[cfg(test)]
pub fn holds(fault: Fault, condition: bool) -> bool {
    let lies = !condition && ACTIVE.get() == Some(fault);
    if lies {
        LIES.set(LIES.get() + 1);
    }
    condition || lies
}

/// `condition`.
#[cfg(not(test))]
#[inline(always)]
pub fn holds(_: Fault, condition: bool) -> bool {
    condition
}

/// Runs `f` with a fault; returns how often it made a condition lie.
#[cfg(test)]
pub fn with<T>(fault: Fault, f: impl FnOnce() -> T) -> (T, usize) {
    ACTIVE.set(Some(fault));
    LIES.set(0);
    let result = f();
    ACTIVE.set(None);
    (result, LIES.get())
}
