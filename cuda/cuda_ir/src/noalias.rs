//! The attribute `noalias`, which libNVVM must not see.
//!
//! libNVVM 13.5.37 takes it for more than it says (LLVM Language Reference, "Parameter Attributes"): where a function
//! stores such a parameter, a store through a pointer that it cannot trace back, such as a `phi` of null and an array, no
//! longer counts as one into that array, once the array's address is stored too. Loads then give what was there before,
//! and fills lose their ends. This holds for `-opt=1` to `-opt=3`. After inlining by LLVM, which turns the promise into
//! metadata that libNVVM reads as it is meant, nothing is lost without the attribute.

/// The text without the attribute; metadata of that name stays. Of the orders of uses, which passes go by, those of inline
/// assembly go too: LLVM writes them in a form that it does not read.
pub fn remove(text: &str) -> String {
    let mut edited = String::with_capacity(text.len());
    let is_unread = |line: &&str| line.trim_start().starts_with("uselistorder ") && line.contains(" asm ");
    for line in text.split_inclusive('\n').filter(|line| !is_unread(line)) {
        // Names and strings stand between quotation marks, every second piece.
        for (n, piece) in line.split('"').enumerate() {
            if n > 0 {
                edited.push('"');
            }
            if n % 2 == 0 { without(piece, &mut edited) } else { edited.push_str(piece) }
        }
    }
    edited
}

/// Appends a piece of code without the word.
fn without(mut code: &str, edited: &mut String) {
    const WORD: &str = "noalias ";
    while let Some(at) = code.find(WORD) {
        let is_word = code[..at].ends_with([' ', '(', ',']);
        let kept = if is_word { at } else { at + WORD.len() };
        edited.push_str(&code[..kept]);
        code = &code[at + WORD.len()..];
    }
    edited.push_str(code);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_attribute_goes_and_what_is_named_like_it_stays() {
        let text = "define noalias ptr @f(ptr noalias noundef %a, ptr readonly noalias %b) {\n  \
                    %x = load i8, ptr %a, !alias.scope !1, !noalias !2\n  \
                    call void @llvm.experimental.noalias.scope.decl(metadata !3)\n  \
                    call void @\"a noalias name\"(ptr noalias %a) ; \"noalias \"\n}\n\
                    uselistorder ptr asm sideeffect \"bar.sync 0;\", \"\", { 1, 0 }\nuselistorder ptr @f, { 1, 0 }\n\
                    @s = constant [9 x i8] c\" noalias \"\n; no line end";
        let expected = "define ptr @f(ptr noundef %a, ptr readonly %b) {\n  \
                        %x = load i8, ptr %a, !alias.scope !1, !noalias !2\n  \
                        call void @llvm.experimental.noalias.scope.decl(metadata !3)\n  \
                        call void @\"a noalias name\"(ptr %a) ; \"noalias \"\n}\n\
                        uselistorder ptr @f, { 1, 0 }\n\
                        @s = constant [9 x i8] c\" noalias \"\n; no line end";
        assert_eq!(remove(text), expected);
    }
}
