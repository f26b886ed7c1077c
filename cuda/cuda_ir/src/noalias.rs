//! Removes the attribute `noalias`, which libNVVM over-interprets.
//!
//! libNVVM 13.5.37 reads more into it than it promises (LLVM Language Reference, "Parameter Attributes"). If a function
//! stores such a parameter and the address of an array, a store through a pointer that libNVVM cannot trace back, such as a
//! `phi` of null and the array, no longer counts as a store to the array. Loads then return old values, and fills lose their
//! ends. This holds for `-opt=1` to `-opt=3`. LLVM's inlining turns the promise into metadata that libNVVM reads correctly,
//! so nothing is lost without the attribute.

/// Removes the attribute; metadata of that name stays. Use-list orders of inline assembly are removed, too: LLVM writes them
/// in a form that it cannot read. The other orders stay, because passes depend on them.
pub fn remove(text: &str) -> String {
    let mut edited = String::with_capacity(text.len());
    let is_unread = |line: &&str| line.trim_start().starts_with("uselistorder ") && line.contains(" asm ");
    for line in text.split_inclusive('\n').filter(|line| !is_unread(line)) {
        // Names and strings are between quotation marks: every second piece.
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
