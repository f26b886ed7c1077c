//! The types of a program: structures, enums, arrays, and tables of numbers.

use super::Generator;
use crate::programs::ast::*;

/// Fields of a structure of an odd size, as widths of integers: 3, 3, 5, 5, 7, 7, 12, 12, 6 and 11 bytes.
const ODD: [&[u32]; 10] = [
    &[8, 8, 8],
    &[16, 8],
    &[8, 8, 8, 8, 8],
    &[32, 8],
    &[32, 16, 8],
    &[8, 16, 32],
    &[32, 32, 32],
    &[64, 32],
    &[16, 16, 16],
    &[8, 64, 16],
];

impl Generator {
    /// Generates types, tables and the trait.
    pub(super) fn types(&mut self) {
        self.program.types_elsewhere = self.random.chance(60);
        let ints: Vec<Ty> = (0..4).map(|_| self.int_ty()).collect();
        self.palette.extend(ints);
        self.palette.push(Ty::unsigned(8));
        let others = [
            (Ty::F32, 40),
            (Ty::F64, 30),
            (Ty::F16, 15),
            (Ty::Bf16, 15),
            (Ty::Bool, 45),
            (Ty::Char, 15),
            (Ty::Int(Int::new(16, true)), 25),
            (Ty::Int(Int::new(8, true)), 10),
        ];
        for (ty, percent) in others {
            if self.random.chance(percent) {
                self.palette.push(ty);
            }
        }
        for _ in 0..self.random.between(1, 2) {
            let structure = self.structure_ty();
            self.program.structs.push(structure);
            self.palette.push(Ty::Struct(self.program.structs.len() - 1));
        }
        for _ in 0..self.random.below(3).max(usize::from(self.has_enum_in_a_register())) {
            let enumeration = self.enum_ty();
            self.program.enums.push(enumeration);
            let ty = Ty::Enum(self.program.enums.len() - 1);
            self.palette.push(ty.clone());
            if self.random.chance(30) {
                self.palette.push(Ty::Option(Box::new(ty)));
            }
        }
        for _ in 0..self.random.between(2, 4) {
            let ty = self.array_ty();
            self.palette.push(ty);
        }
        let (a, b) = (self.scalar_ty(), self.scalar_ty());
        match self.random.below(4) {
            0 => self.palette.push(Ty::Option(Box::new(a))),
            1 => self.palette.push(Ty::Tuple(vec![a, b])),
            2 => self.palette.push(Ty::Option(Box::new(Ty::Tuple(vec![a, b])))),
            _ => {}
        }
        for _ in 0..self.random.below(2) {
            let (ty, len) = (self.int_ty(), self.random.between(2, 20));
            let table = (0..len).map(|_| self.literal(&ty)).collect();
            self.program.statics.push(table);
        }
    }

    /// A structure; some are packed or of an odd size.
    fn structure_ty(&mut self) -> Structure {
        if self.random.chance(30) {
            let widths = *self.random.pick(&ODD);
            let fields = widths.iter().map(|&bits| Ty::Int(Int::new(bits, self.random.chance(40)))).collect();
            return Structure { fields, is_packed: self.random.chance(60) };
        }
        let fields = (0..self.random.between(1, 5)).map(|_| self.plain_ty()).collect();
        Structure { fields, is_packed: self.random.chance(8) }
    }

    /// An enum. Its discriminants are the compiler's choice, also in niches, or the program's.
    fn enum_ty(&mut self) -> Enumeration {
        if self.has_enum_in_a_register() && self.program.enums.is_empty() {
            return self.enum_in_a_register();
        }
        let count = self.random.between(2, 4);
        let (is_plain, is_chosen) = (self.random.chance(25), self.random.chance(50));
        let data = |this: &mut Self| -> Vec<Ty> {
            let most = if is_plain { 0 } else { this.random.below(3) };
            (0..most)
                .map(|_| if this.random.chance(70) { this.small_ty() } else { this.plain_ty() })
                .collect()
        };
        let mut variants: Vec<Variant> =
            (0..count).map(|_| Variant { data: data(self), discriminant: None }).collect();
        let is_plain = variants.iter().all(|variant| variant.data.is_empty());
        let int = Int::new([8, 8, 16, 32, 64][self.random.below(5)], self.random.chance(75));
        // If variants have fields, explicit discriminants need an explicit integer type.
        let repr = (is_chosen && !(is_plain && self.random.chance(50))).then_some(int);
        if is_chosen {
            for (i, variant) in variants.iter_mut().enumerate() {
                let any = self.random.below(60) as i64 * 4 + i as i64;
                let is_signed = repr.is_none_or(|int| int.signed);
                variant.discriminant = Some(if is_signed { any % 120 - 60 } else { any });
                if is_signed && any % 120 < 8 {
                    variant.discriminant = Some(-128 + i as i64);
                }
            }
        }
        Enumeration { repr, variants }
    }

    /// Whether the program's first enum is passed in a register, as in every fourth program.
    pub(super) fn has_enum_in_a_register(&self) -> bool {
        self.program.seed % 4 == 3
    }

    /// A number, a `bool` or nothing, in 4 or 8 bytes that are passed as one integer. Where the compiler builds the integer,
    /// the register of the `bool` is unwritten in the other variants. Its upper byte is next to a 16-bit number.
    fn enum_in_a_register(&mut self) -> Enumeration {
        let bits = if self.random.chance(70) { 16 } else { 32 };
        let number = Ty::Int(Int::new(bits, self.random.chance(40)));
        let data = [vec![number], vec![Ty::Bool], Vec::new()];
        let first = self.random.below(3);
        let variant = |i: usize| Variant { data: data[(first + i) % 3].clone(), discriminant: None };
        Enumeration { repr: None, variants: (0..3).map(variant).collect() }
    }

    /// A type of a few bytes, so that the whole enum fits a register.
    fn small_ty(&mut self) -> Ty {
        let all = [
            Ty::Bool,
            Ty::Bool,
            Ty::unsigned(8),
            Ty::unsigned(16),
            Ty::Int(Int::new(16, true)),
            Ty::unsigned(32),
            Ty::Int(Int::new(32, true)),
            Ty::Char,
        ];
        self.random.pick(&all).clone()
    }

    pub(super) fn int_ty(&mut self) -> Ty {
        let bits = [8, 16, 32, 32, 64, 64, 128][self.random.below(7)];
        if self.random.chance(8) {
            return USIZE;
        }
        Ty::Int(Int::new(bits, self.random.chance(40)))
    }

    /// A number, a `bool` or a `char` type of the palette.
    pub(super) fn scalar_ty(&mut self) -> Ty {
        let scalars: Vec<Ty> = self
            .palette
            .iter()
            .filter(|ty| matches!(ty, Ty::Int(_) | Ty::Bool | Ty::Char) || ty.is_float())
            .cloned()
            .collect();
        self.random.pick(&scalars).clone()
    }

    /// An integer type of the palette.
    pub(super) fn some_int(&mut self) -> Ty {
        let ints: Vec<Ty> = self.palette.iter().filter(|ty| matches!(ty, Ty::Int(_))).cloned().collect();
        self.random.pick(&ints).clone()
    }

    /// A type that contains none of the program's own.
    fn plain_ty(&mut self) -> Ty {
        let scalar = self.scalar_ty();
        match self.random.below(10) {
            0 | 1 => Ty::array(scalar, self.random.between(1, 9)),
            2 => Ty::Tuple(vec![scalar, Ty::unsigned(8)]),
            3 => Ty::Option(Box::new(scalar)),
            _ => scalar,
        }
    }

    /// An array. Half of them are bytes with typical lengths of blocks and padding.
    fn array_ty(&mut self) -> Ty {
        let lens =
            [1, 2, 3, 4, 5, 7, 8, 9, 12, 15, 16, 17, 24, 31, 32, 33, 63, 64, 65, 100, 112, 127, 128, 129];
        let element = match self.random.below(10) {
            0..=3 => Ty::unsigned(8),
            4..=6 => self.some_int(),
            7 | 8 => self.scalar_ty(),
            _ => self.palette_ty(),
        };
        let element = if matches!(element, Ty::Array(..)) { Ty::unsigned(16) } else { element };
        let most = match element {
            Ty::Int(Int { bits: 8, .. }) => lens.len(),
            Ty::Int(Int { bits: 16 | 32 | 64, .. }) => 20,
            _ => 15,
        };
        Ty::array(element, lens[self.random.below(most)])
    }

    /// A type of the palette that is visible here.
    pub(super) fn palette_ty(&mut self) -> Ty {
        let knows_all = !self.elsewhere || self.program.types_elsewhere;
        let known: Vec<Ty> =
            self.palette.iter().filter(|ty| knows_all || !ty.is_of_program()).cloned().collect();
        self.random.pick(&known).clone()
    }
}
