//! Edits that make `002` wrong, and what the check must say about each.

use hlorun::analysis::buffer_assignment::FindingKind::{self, *};

pub struct Corruption {
    pub what: &'static str,
    /// The first occurrence is replaced.
    pub from: &'static str,
    pub to: &'static str,
    pub kind: FindingKind,
    /// One finding of that kind has all of these in its message.
    pub names: &'static [&'static str],
}

macro_rules! corruptions {
    ($($what:literal: $from:literal => $to:literal, $kind:ident $names:tt;)*) => {
        pub const CORRUPTIONS: &[Corruption] = &[$(Corruption {
            what: $what, from: $from, to: $to, kind: $kind, names: &$names,
        }),*];
    };
}

corruptions! {
    "an offset moved onto a live value": "<40 cublas-gemm.7 @0> (size=1280,offset=16384)" => "<40 cublas-gemm.7 @0> (size=1280,offset=128)", Overlap ["fusion.1`", "cublas-gemm.7"];
    "an offset moved under its operand": "<33 reduce.110 @0> (size=128,offset=0)" => "<33 reduce.110 @0> (size=128,offset=16384)", Overlap ["reduce.110", "cublas-gemm.7"];
    "an offset past the end": "(size=16,offset=17792)" => "(size=16,offset=17800)", OutOfBounds ["reduce.47{}", "17808"];
    "a size doubled": "<42 fusion.1 @0> (size=128," => "<42 fusion.1 @0> (size=256,", Size ["fusion.1", "256", "128"];
    "two sizes swapped": "<28 broadcast.15 @0> (size=16384,offset=0): f32[32,128]{1,0}\n value: <29 broadcast.22 @0> (size=1280," => "<28 broadcast.15 @0> (size=1280,offset=0): f32[32,128]{1,0}\n value: <29 broadcast.22 @0> (size=16384,", Size ["broadcast.15", "1280", "16384"];
    "an allocation too large": "size 5120, parameter 5" => "size 5248, parameter 5", Size ["allocation 2", "5248", "5120"];
    "a wrong total": "used: 525448 (" => "used: 525449 (", Total ["525449", "525448"];
    "a wrong total for people": "(513.1KiB)" => "(512.1KiB)", Total ["512.1KiB", "513.1KiB"];
    "a live range cut short": "cublas-gemm.7{}:10-18" => "cublas-gemm.7{}:10-15", LiveRange ["cublas-gemm.7{}", "10-15", "10-18"];
    "a live range drawn out": "fusion.1{}:13-15" => "fusion.1{}:13-16", LiveRange ["fusion.1{}", "13-16", "13-15"];
    "a live range begun early": "iota.34{}:16-18" => "iota.34{}:15-18", LiveRange ["iota.34{}", "15-18", "16-18"];
    "a live range left out": "    copy{}:29-33\n" => "", LiveRange ["`copy`"];
    "a live range twice": "    copy{}:29-33\n" => "    copy{}:29-33\n    copy{}:29-33\n", LiveRange ["`copy{}`", "two"];
    "a live range of nothing": "copy.1{}:31-33" => "copy.9{}:31-33", LiveRange ["copy.9{}"];
    "a wrong operand number": "  reduce.47, operand 2\n" => "  reduce.47, operand 3\n", Use ["constant_32", "reduce.47, operand 3", "constant_33"];
    "an operand number too large": "  add.69, operand 1\n" => "  add.69, operand 7\n", Use ["y.68", "operand 7", "2 operands"];
    "a wrong user": "  broadcast.15, operand 0\n" => "  broadcast.22, operand 0\n", Use ["arg2.3", "broadcast.22", "arg4.5"];
    "a use left out": "  input_fusion_reduce, operand 2\n" => "", Use ["cublas-gemm.7", "input_fusion_reduce, operand 2"];
    "a use too many": "  add.69, operand 0\n" => "  add.69, operand 0\n  add.69, operand 1\n", Use ["x.67", "add.69, operand 1", "y.68"];
    "a user the module has not": "  copy.1, operand 0\n" => "  copy.7, operand 0\n", Use ["constant_162", "copy.7"];
    "a use of another part": "  get-tuple-element.2, operand 0 {}\n" => "  get-tuple-element.2, operand 0 {1}\n", Use ["fusion.7{}", "get-tuple-element.2"];
    "a position left out": "  tuple.46 {1}\n" => "", Position ["fusion{0}", "tuple.46{1}"];
    "a position of another value": "  tuple.2 {2}\n" => "  tuple.2 {3}\n", Position ["fusion.7{0}", "tuple.2{3}", "fusion.7{1}"];
    "a position the module has not": "  bitcast.3\n  tuple.2" => "  bitcast.9\n  tuple.2", Position ["fusion.7{0}", "bitcast.9"];
    "a position too many": "  x.67\n uses" => "  x.67\n  y.68\n uses", Position ["x.67", "y.68"];
    "a value without memory": " value: <42 fusion.1 @0> (size=128,offset=128): f32[32]{0}\n" => "", MissingValue ["fusion.1"];
    "a value not listed": "<13 maximum.109 @0>\n positions:\n  maximum.109\n uses:\n from instruction:%maximum.109 = f32[] maximum(f32[] %x.107, f32[] %y.108)\n" => "", MissingValue ["13 maximum.109"];
    "a value of no instruction": "<48 copy @0> (size" => "<48 copy.5 @0> (size", UnknownInstruction ["copy.5"];
    "a value of no part": "<46 fusion.7{0} @0> (size" => "<46 fusion.7{5} @0> (size", UnknownValue ["fusion.7{5}"];
    "a value that is passed on": "<48 copy @0> (size=4" => "<48 bitcast.3 @0> (size=4", UnknownValue ["bitcast.3", "fusion.7{0}"];
    "a value number nobody has": "<44 fusion.3 @0>\n" => "<54 fusion.3 @0>\n", MissingValue ["54 fusion.3"];
    "a value number twice": "<12 y.108 @0> (size" => "<13 y.108 @0> (size", DuplicateValue ["13", "y.108", "maximum.109"];
    "a value twice": " value: <32 iota.34 @0> (size=1280,offset=0)" => " value: <32 broadcast.22 @0> (size=1280,offset=0)", DuplicateValue ["broadcast.22"];
    "a phi that is none": "<49 copy.1 @0> (size" => "<49 copy.1 (phi) @0> (size", ValueAttribute ["copy.1", "phi"];
    "a wrong color": "<22 arg2.3 @0> (size" => "<22 arg2.3 @1> (size", ValueAttribute ["arg2.3", "color 1"];
    "a shape transposed": "f32[784,128]{1,0}\nallocation 1" => "f32[128,784]{1,0}\nallocation 1", Shape ["arg3.4", "f32[128,784]", "f32[784,128]"];
    "a layout reversed": "f32[32,28,28]{2,1,0}\nallocation 2" => "f32[32,28,28]{0,1,2}\nallocation 2", Shape ["arg0.1", "{0,1,2}", "{2,1,0}"];
    "a wrong element type": "u8[32]{0}\nallocation 7" => "s8[32]{0}\nallocation 7", Shape ["arg1.2", "s8[32]", "u8[32]"];
    "a schedule out of order": "    5:cublas-gemm.3\n    6:fusion.3\n" => "    5:fusion.3\n    6:cublas-gemm.3\n", Schedule ["fusion.3", "cublas-gemm.3"];
    "a scheduled stranger": "    16:iota.34\n" => "    16:iota.99\n", UnknownInstruction ["iota.99"];
    "an instruction scheduled twice": "    14:arg1.2\n" => "    14:arg5.6\n", Schedule ["arg5.6", "twice"];
    "an instruction not scheduled": "    14:arg1.2\n" => "    14:arg5.6\n", Schedule ["arg1.2"];
    "a wrong moment": "    9:arg5.6\n" => "    8:arg5.6\n", Schedule ["arg5.6", "9"];
    "a wrong last moment": "(max 33)" => "(max 34)", Schedule ["34", "33"];
    "a wrong peak": "Live ranges at 6 (peak)" => "Live ranges at 5 (peak)", Peak ["5", "6"];
    "wrong bytes at the peak": "    cublas-gemm.3: 16384 bytes" => "    cublas-gemm.3: 16380 bytes", Peak ["cublas-gemm.3", "16380", "16384"];
    "a live value not at the peak": "    fusion.3: 16384 bytes" => "    copy: 16384 bytes", Peak ["`fusion.3`"];
    "a dead value at the peak": "    arg7.8: 4 bytes\n" => "    arg7.8: 4 bytes\n    copy: 4 bytes\n", Peak ["`copy`", "6"];
    "a wrong parameter number": "size 5120, parameter 5," => "size 5120, parameter 4,", Parameter ["parameter 4", "arg4.5"];
    "a parameter not said to be one": "size 4, parameter 6, shape |f32[]| at ShapeIndex {}" => "size 4, preallocated-temp", Parameter ["arg6.7", "parameter 6"];
    "a wrong parameter shape": "parameter 3, shape |f32[784,128]|" => "parameter 3, shape |f32[784,129]|", Parameter ["f32[784,129]", "f32[784,128]"];
    "a parameter the module has not": "parameter 7," => "parameter 17,", Parameter ["parameter 17"];
    "a constant that is not": "size 4, constant:\n value: <35" => "size 4, preallocated-temp:\n value: <35", AllocationFlag ["constant", "constant_165"];
    "a wrong thread-local": "allocation 7: 0x7f56c8062260, size 4, thread-local" => "allocation 7: 0x7f56c8062260, size 4", AllocationFlag ["thread-local", "maximum.109"];
    "a result that does not live out": "size 4, maybe-live-out:\n value: <48" => "size 4, preallocated-temp:\n value: <48", AllocationFlag ["maybe-live-out", "copy"];
    "a wrong output shape": "|(s32[], f32[], f32[], f32[])|" => "|(f32[], s32[], f32[], f32[])|", Output ["(f32[], s32[]", "(s32[], f32[]"];
    "no output shape": ", output shape is |(s32[], f32[], f32[], f32[])|" => "", Output ["tuple.2"];
    "an output elsewhere": "size 4, maybe-live-out:\n value: <48" => "size 4, output shape is |s32[]|, maybe-live-out:\n value: <48", Output ["allocation 9", "tuple.2"];
    "another opcode": "maximum(f32[] %x.107" => "minimum(f32[] %x.107", DefiningInstruction ["maximum.109", "minimum"];
    "operands changed over": "add(f32[] %x.117, f32[] %y.118)" => "add(f32[] %y.118, f32[] %x.117)", DefiningInstruction ["add.119", "y.118, f32[] %x.117"];
    "another result shape": "%fusion.3 = f32[32,128]{1,0}" => "%fusion.3 = f32[32,64]{1,0}", DefiningInstruction ["fusion.3", "f32[32,64]"];
    "allocations misnumbered": "allocation 8:" => "allocation 9:", AllocationNumber ["9", "8"];
}
