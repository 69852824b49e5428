//! Attributes: `, key=value` after the operands; the key decides the form of the value.

use super::attribute_table::may_have;
use super::error::{Fault, Parsed};
use super::instruction::Open;
use super::lexer::is_name_byte;
use super::literal::parse_typed_literal;
use super::parser::{Parser, PendingCall, PendingUse};
use super::scan::WIDTH;
use crate::module::accuracy::ResultAccuracy;
use crate::module::attributes::{OutputOperandAlias, SliceDimension};
use crate::module::{
    AttrKey, AttrValue, Attribute, ComputationId, HloOpcode, HloSharding, Id, InstructionId,
    LiteralId, TextRef,
};
use crate::types::ShapeIndex;

impl Parser<'_> {
    /// All attributes of an instruction, into the module's pool.
    #[inline]
    pub(super) fn attributes(&mut self, opcode: HloOpcode, open: &Open) -> Parsed<()> {
        self.open_attributes = self.module.attributes.len();
        if open.is_prepared {
            self.prepared_attributes();
        }
        // Most often the line ends here.
        while self.cursor.peek() != b'\n' && self.cursor.eat(b',') {
            let first = self.open_attributes;
            if self.plain_metadata(opcode)? {
                continue;
            }
            let (text, key) = self.cursor.keyed_word("an attribute")?;
            let bytes = self.cursor.bytes(text);
            let key = match text.len as usize <= WIDTH {
                true => self.keys.of_key(&key).unwrap_or(AttrKey::Other(text)),
                false => AttrKey::Other(text),
            };
            self.cursor.expect(b'=', "'=' after the attribute's name")?;
            if self.module.attributes.len() - first >= self.limits.attributes {
                return Err(Fault::new(
                    text.start as usize,
                    format!("more than {} attributes", self.limits.attributes),
                ));
            }
            let twice = self.module.attributes[first..].iter().any(|a| {
                a.key == key
                    || matches!(a.key, AttrKey::Other(other) if self.cursor.bytes(other) == bytes)
            });
            if twice {
                return Err(Fault::new(
                    text.start as usize,
                    format!("attribute '{}' is given twice", self.module.str(text)),
                ));
            }
            if !matches!(key, AttrKey::Other(_)) && !may_have(opcode, open.wrapped.is_some(), key) {
                self.warn_foreign_key(text, opcode)?;
            }
            self.cursor.skip_space();
            let value = match opcode {
                HloOpcode::Unknown => self.tolerant_value(key)?,
                _ => self.attribute_value(key, opcode)?,
            };
            self.module.attributes.push(Attribute { key, value });
        }
        Ok(())
    }

    /// The value of an attribute of an opcode hlorun does not know: what a known key means to it is
    /// not known either, so that a value of another form is kept as it is written. Keys that mean
    /// the same to every instruction keep their form.
    #[cold]
    fn tolerant_value(&mut self, key: AttrKey) -> Parsed<AttrValue> {
        if matches!(
            key,
            AttrKey::Metadata | AttrKey::FrontendAttributes | AttrKey::Sharding
        ) {
            return self.attribute_value(key, HloOpcode::Unknown);
        }
        let start = self.cursor.position;
        let (calls, uses) = (self.open_calls.len(), self.open_uses.len());
        // Instructions in braces would leave a half-read computation behind where they fail, so
        // that none may be opened.
        let depth = std::mem::replace(&mut self.depth, self.limits.computation_depth);
        let value = self.attribute_value(key, HloOpcode::Unknown);
        self.depth = depth;
        if value.is_ok() {
            return value;
        }
        self.cursor.position = start;
        self.open_calls.truncate(calls);
        self.open_uses.truncate(uses);
        Ok(AttrValue::Raw(self.raw_value()?))
    }

    /// The value of an attribute that is known. Long because it is the table of which key has which form.
    fn attribute_value(&mut self, key: AttrKey, opcode: HloOpcode) -> Parsed<AttrValue> {
        use AttrKey::*;
        Ok(match key {
            Metadata => AttrValue::Raw(self.metadata()?),
            Dimensions
            | CollapsedSliceDims
            | DynamicSliceSizes
            | FftLength
            | InputBatchingDims
            | InsertedWindowDims
            | LhsBatchDims
            | LhsContractingDims
            | LhsRaggedDims
            | OffsetDims
            | OperandBatchingDims
            | RhsBatchDims
            | RhsContractingDims
            | RhsGroupDims
            | ScatterDimsToOperandDims
            | ScatterIndicesBatchingDims
            | StartIndexMap
            | StartIndicesBatchingDims
            | UpdateWindowDims => self.ints()?,
            SliceSizes if self.at_nested_list() => AttrValue::Raw(self.cursor.balanced()?),
            SliceSizes => self.ints()?,
            Index
            | IotaDimension
            | AsyncGroupId
            | BatchGroupCount
            | ChannelId
            | CrossProgramPrefetchIndex
            | Delta
            | ExponentBits
            | FeatureGroupCount
            | FeatureIndex
            | IndexVectorDim
            | InferredDimension
            | K
            | MantissaBits
            | NumCarries
            | SplitDimension => AttrValue::Int(self.cursor.integer("a number")?),
            Epsilon => AttrValue::Float(self.float()?),
            ConstrainLayout
            | CustomCallHasSideEffect
            | IndicesAreSorted
            | IsAssociative
            | IsComposite
            | IsCrossProgramPrefetch
            | IsHostTransfer
            | IsStable
            | IsReverse
            | Largest
            | LeftSide
            | Lower
            | UniqueIndices
            | UnitDiagonal
            | UseGlobalDeviceIds
            | InvertPermutation => AttrValue::Bool(self.boolean()?),
            Direction | Kind | FftType | Distribution | ApiVersion | CustomCallSchedule
            | PaddingType | TransposeA | TransposeB | Algorithm | Type | ConvKind | Mode => {
                AttrValue::Enum(self.enumeration(key, opcode)?)
            }
            Body | Condition | FalseComputation | TrueComputation | ScatterComputation
            | SelectComputation | ToApply => self.computation_value()?,
            Calls | BranchComputations | CalledComputations => {
                if key != Calls && self.cursor.peek() == b'{' || self.at_name_list() {
                    self.computation_list()?
                } else {
                    self.computation_value()?
                }
            }
            ControlPredecessors => self.instruction_list()?,
            Window => AttrValue::Window(Box::new(self.window()?)),
            Padding if opcode == HloOpcode::Pad => self.padding()?,
            Slice => self.slice()?,
            DimLabels => AttrValue::DimLabels(Box::new(self.dim_labels()?)),
            ReplicaGroups => AttrValue::ReplicaGroups(Box::new(self.replica_groups()?)),
            SourceTargetPairs => self.pairs()?,
            OutputOperandAliasing => self.aliasing()?,
            Sharding => AttrValue::Sharding(Box::new(self.sharding()?)),
            OperandPrecision => self.words(key, opcode)?,
            ParameterReplication => self.bools()?,
            OutfeedShape => AttrValue::Shape(self.shape()?),
            OperandLayoutConstraints => self.shape_list()?,
            BackendConfig => self.string_or_object()?,
            CustomCallTarget | AsyncExecutionThread | InfeedConfig | OutfeedConfig => {
                AttrValue::String(self.cursor.string("a quoted string")?)
            }
            Literal => self.literal_value()?,
            FrontendAttributes => AttrValue::Raw(self.frontend_attributes()?),
            ResultAccuracy => AttrValue::Raw(self.result_accuracy()?),
            Padding | Domain | Origin | OriginalValue | Sparsity | Statistics
            | SliceSizesPerDim => AttrValue::Raw(self.raw_value()?),
            Other(text) => {
                self.warn_unknown_key(text, "attribute")?;
                AttrValue::Raw(self.raw_value()?)
            }
        })
    }

    /// Any value, as written: a string, something in brackets, or everything up to the next
    /// separator.
    pub(super) fn raw_value(&mut self) -> Parsed<TextRef> {
        let start = self.cursor.position;
        match self.cursor.peek() {
            b'"' | b'\'' => {
                self.cursor.string("a string")?;
            }
            _ => {
                // `[2,4]<=[8]T(1,0)` and `bf16_bf16_f32` alike.
                while !self.cursor.at_end() {
                    match self.cursor.peek() {
                        b'{' | b'[' | b'(' => {
                            self.cursor.balanced()?;
                        }
                        byte if is_name_byte(byte) || b"%<>=?+*#:@$!~|&;^".contains(&byte) => {
                            self.cursor.position += 1;
                        }
                        _ => break,
                    }
                }
                if self.cursor.position == start {
                    return Err(self.cursor.expected("a value"));
                }
            }
        }
        Ok(TextRef::new(start, self.cursor.position))
    }

    /// `{mode=highest}` or `{tolerance={atol=0,rtol=0,ulps=1}}`.
    fn result_accuracy(&mut self) -> Parsed<TextRef> {
        let text = self.raw_value()?;
        if ResultAccuracy::read(self.cursor.bytes(text)).is_none() {
            let note = "known are mode=default, mode=highest and tolerance={atol=…,rtol=…,ulps=…}";
            let message = format!(
                "'{}' is no result_accuracy that is known",
                super::lexer::snippet(self.cursor.bytes(text))
            );
            self.warn(text, message, Some(note.to_owned()))?;
        }
        Ok(text)
    }

    /// `{devices=[2,1]<=[2]}` in any of its forms.
    fn sharding(&mut self) -> Parsed<HloSharding> {
        let start = self.cursor.position;
        let last = self.cursor.bytes(self.last_sharding);
        let text = if !last.is_empty() && self.cursor.source[start..].starts_with(last) {
            self.cursor.position += last.len();
            TextRef::new(start, self.cursor.position)
        } else {
            let text = self.cursor.balanced_at("'{' of a sharding")?;
            if let Err(error) = crate::module::Sharding::read(self.cursor.bytes(text)) {
                self.cursor.position = start + error.offset;
                return Err(self.cursor.expected(error.expected));
            }
            self.last_sharding = text;
            text
        };
        Ok(HloSharding { text })
    }

    /// `{key="value",key={…}}`.
    pub(super) fn frontend_attributes(&mut self) -> Parsed<TextRef> {
        let start = self.cursor.position;
        self.braced("'{' of the frontend attributes", |p| {
            p.cursor.word("the name of a frontend attribute")?;
            p.cursor.expect(b'=', "'=' after the name")?;
            p.cursor.skip_space();
            p.string_or_object()?;
            Ok(())
        })?;
        Ok(TextRef::new(start, self.cursor.position))
    }

    fn string_or_object(&mut self) -> Parsed<AttrValue> {
        if self.cursor.peek() == b'{' {
            Ok(AttrValue::Raw(self.cursor.json_object()?))
        } else {
            let what = "a quoted string or '{'";
            Ok(AttrValue::String(self.cursor.string(what)?))
        }
    }

    /// Reads `item` until the closing `}`; separators are commas.
    pub(super) fn braced(
        &mut self,
        what: &str,
        mut item: impl FnMut(&mut Self) -> Parsed<()>,
    ) -> Parsed<()> {
        self.cursor.expect(b'{', what)?;
        if self.cursor.eat(b'}') {
            return Ok(());
        }
        loop {
            self.cursor.skip_space();
            item(self)?;
            if self.cursor.eat(b',') {
                continue;
            }
            return self.cursor.expect(b'}', "',' or '}' in a list");
        }
    }

    /// `{1,0}` into the integer pool.
    fn ints(&mut self) -> Parsed<AttrValue> {
        let start = self.module.ints.len();
        self.braced("'{' of a list of numbers", |p| {
            let value = p.cursor.integer("a number")?;
            p.module.ints.push(value);
            Ok(())
        })?;
        Ok(AttrValue::Ints(crate::module::PoolRange {
            start: start as u32,
            len: (self.module.ints.len() - start) as u32,
        }))
    }

    /// Whether `{name,` or `{name}` follows rather than the instructions of a computation.
    fn at_name_list(&self) -> bool {
        let mut ahead = self.cursor;
        ahead.eat(b'{')
            && (ahead.eat(b'}') || ahead.name("").is_ok() && (ahead.eat(b',') || ahead.eat(b'}')))
    }

    fn at_nested_list(&self) -> bool {
        let mut ahead = self.cursor;
        ahead.eat(b'{') && ahead.eat(b'{')
    }

    fn float(&mut self) -> Parsed<f64> {
        let number = super::number::parse_number(&mut self.cursor)?;
        Ok(number.as_f64())
    }

    pub(super) fn boolean(&mut self) -> Parsed<bool> {
        if self.cursor.eat_word(b"true") {
            Ok(true)
        } else if self.cursor.eat_word(b"false") {
            Ok(false)
        } else {
            Err(self.cursor.expected("'true' or 'false'"))
        }
    }

    fn words(&mut self, key: AttrKey, opcode: HloOpcode) -> Parsed<AttrValue> {
        let mut list = Vec::new();
        self.braced("'{' of a list of words", |p| {
            list.push(p.enumeration(key, opcode)?);
            Ok(())
        })?;
        Ok(AttrValue::Enums(list.into_boxed_slice()))
    }

    pub(super) fn bools(&mut self) -> Parsed<AttrValue> {
        let mut list = Vec::new();
        self.braced("'{' of a list of booleans", |p| {
            list.push(p.boolean()?);
            Ok(())
        })?;
        Ok(AttrValue::Bools(list.into_boxed_slice()))
    }

    /// A shape and its literal, or a tuple of those.
    fn literal_value(&mut self) -> Parsed<AttrValue> {
        let literal = parse_typed_literal(
            &mut self.cursor,
            &mut self.module.shapes,
            &mut self.shapes,
            &self.limits,
        )?;
        self.module.literals.push(literal);
        let id = LiteralId::from_index(self.module.literals.len() - 1);
        Ok(AttrValue::Literal(id))
    }

    fn computation_value(&mut self) -> Parsed<AttrValue> {
        if self.cursor.peek() == b'{' {
            return Ok(AttrValue::Computation(self.nested_computation()?));
        }
        let (name, found) = self.computation_use()?;
        if found.is_none() {
            self.open_calls.push(PendingCall {
                attribute: self.module.attributes.len(),
                part: 0,
                name,
            });
        }
        Ok(AttrValue::Computation(
            found.unwrap_or(ComputationId::from_index(0)),
        ))
    }

    fn computation_list(&mut self) -> Parsed<AttrValue> {
        let mut list = Vec::new();
        self.braced("'{' of a list of computations", |p| {
            if p.cursor.peek() == b'{' {
                list.push(p.nested_computation()?);
                return Ok(());
            }
            let (name, found) = p.computation_use()?;
            if found.is_none() {
                p.open_calls.push(PendingCall {
                    attribute: p.module.attributes.len(),
                    part: list.len(),
                    name,
                });
            }
            list.push(found.unwrap_or(ComputationId::from_index(0)));
            Ok(())
        })?;
        Ok(AttrValue::Computations(list.into_boxed_slice()))
    }

    fn instruction_list(&mut self) -> Parsed<AttrValue> {
        let mut list = Vec::new();
        self.braced("'{' of a list of instructions", |p| {
            let symbol = p.cursor.symbol("the name of an instruction")?;
            let name = symbol.name;
            let found = p.find_instruction(&symbol);
            if found.is_none() {
                p.open_uses.push(PendingUse {
                    attribute: p.module.attributes.len(),
                    part: list.len(),
                    name,
                });
            }
            list.push(found.unwrap_or(InstructionId::from_index(0)));
            Ok(())
        })?;
        Ok(AttrValue::Instructions(list.into_boxed_slice()))
    }

    fn shape_list(&mut self) -> Parsed<AttrValue> {
        let mut list = Vec::new();
        self.braced("'{' of a list of shapes", |p| {
            list.push(p.shape()?);
            Ok(())
        })?;
        Ok(AttrValue::Shapes(list.into_boxed_slice()))
    }

    /// `{{0,1},{1,2}}`.
    fn pairs(&mut self) -> Parsed<AttrValue> {
        let mut list = Vec::new();
        self.braced("'{' of a list of pairs", |p| {
            p.cursor.expect(b'{', "'{' of a pair")?;
            let first = p.cursor.integer("a number")?;
            p.cursor.expect(b',', "',' in a pair")?;
            let second = p.cursor.integer("a number")?;
            p.cursor.expect(b'}', "'}' after a pair")?;
            list.push((first, second));
            Ok(())
        })?;
        Ok(AttrValue::Pairs(list.into_boxed_slice()))
    }

    /// `{[0:4:2], [1:3]}`.
    fn slice(&mut self) -> Parsed<AttrValue> {
        let mut list = Vec::new();
        self.braced("'{' of the slice", |p| {
            p.cursor.expect(b'[', "'[' of a slice of a dimension")?;
            let start = p.cursor.integer("the start of the slice")?;
            p.cursor.expect(b':', "':'")?;
            let limit = p.cursor.integer("the limit of the slice")?;
            let stride = if p.cursor.eat(b':') {
                p.cursor.integer("the stride of the slice")?
            } else {
                1
            };
            p.cursor.expect(b']', "':' or ']' in the slice")?;
            list.push(SliceDimension {
                start,
                limit,
                stride,
            });
            Ok(())
        })?;
        Ok(AttrValue::Slice(list.into_boxed_slice()))
    }

    /// `{0,1}`, the path to a part of a tuple.
    pub(super) fn shape_index(&mut self) -> Parsed<ShapeIndex> {
        let mut index = ShapeIndex::default();
        self.braced("'{' of a shape index", |p| {
            index.0.push(p.cursor.integer("a number")?);
            Ok(())
        })?;
        Ok(index)
    }

    /// `{{0}: (1, {}), …}`.
    fn aliasing(&mut self) -> Parsed<AttrValue> {
        let mut list = Vec::new();
        self.braced("'{' of the aliasing", |p| {
            let output = p.shape_index()?;
            p.cursor.expect(b':', "':' after the output's index")?;
            p.cursor.expect(b'(', "'('")?;
            let operand = p.cursor.integer("the number of an operand")?;
            p.cursor.expect(b',', "','")?;
            let operand_index = p.shape_index()?;
            p.cursor.expect(b')', "')'")?;
            list.push(OutputOperandAlias {
                output,
                operand,
                operand_index,
            });
            Ok(())
        })?;
        Ok(AttrValue::Aliasing(list.into_boxed_slice()))
    }
}
