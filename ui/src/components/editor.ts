/**
 * Source with figures beside the lines. Loaded when a source is shown: most of the bundle is the editor, and the first
 * page needs none of it.
 */
import { cpp } from "@codemirror/lang-cpp";
import { rust } from "@codemirror/lang-rust";
import { HighlightStyle, StreamLanguage, syntaxHighlighting } from "@codemirror/language";
import { csharp, java } from "@codemirror/legacy-modes/mode/clike";
import { fortran } from "@codemirror/legacy-modes/mode/fortran";
import { go } from "@codemirror/legacy-modes/mode/go";
import { haskell } from "@codemirror/legacy-modes/mode/haskell";
import { search, searchKeymap } from "@codemirror/search";
import { EditorState, type Extension, RangeSet, StateEffect, StateField } from "@codemirror/state";
import { Decoration, type DecorationSet, EditorView, GutterMarker, gutter, keymap, lineNumbers, WidgetType } from "@codemirror/view";
import { tags } from "@lezer/highlight";

/** What stands beside a line: a text for each column, and the colour of the first. */
export interface Beside {
  texts: string[];
  color: string | null;
  tip: string;
}

/** An instruction below the line that it was made of. */
export interface Instruction {
  address: string;
  text: string;
  /** The function that it lies in. */
  inside: string;
  /** Where its own line is, when that is in another file. */
  elsewhere: string;
  accesses: string;
  remote: string;
  color: string | null;
}

export interface Annotated {
  text: string;
  file: string;
  columns: string[];
  lines: Map<number, Beside>;
  /** The line to show. */
  line: number | null;
  onpick: (line: number) => void;
}

function language(file: string): Extension {
  const ending = file.split(".").pop()?.toLowerCase() ?? "";
  if (["c", "h", "cc", "cpp", "cxx", "hh", "hpp", "inl", "cu"].includes(ending)) return cpp();
  if (ending === "rs") return rust();
  const modes: Record<string, Parameters<typeof StreamLanguage.define>[0]> = {
    f: fortran, for: fortran, f90: fortran, f95: fortran, f03: fortran, f08: fortran, hs: haskell, lhs: haskell, java, cs: csharp, go,
  };
  const mode = modes[ending];
  return mode ? StreamLanguage.define(mode) : [];
}

class Figures extends GutterMarker {
  constructor(readonly beside: Beside) {
    super();
  }
  override eq(other: Figures): boolean {
    return other.beside === this.beside;
  }
  override toDOM(): HTMLElement {
    const box = document.createElement("div");
    box.className = "figures";
    box.title = this.beside.tip;
    this.beside.texts.forEach((text, index) => {
      const cell = document.createElement("span");
      cell.textContent = text;
      if (index === 0 && this.beside.color) cell.style.borderRightColor = this.beside.color;
      box.append(cell);
    });
    return box;
  }
}

const pick = StateEffect.define<number | null>();
const picked = StateField.define<DecorationSet>({
  create: () => Decoration.none,
  update(marks, transaction) {
    for (const effect of transaction.effects) {
      if (!effect.is(pick)) continue;
      const line = effect.value;
      if (line === null || line < 1 || line > transaction.state.doc.lines) return Decoration.none;
      return Decoration.set([Decoration.line({ class: "picked" }).range(transaction.state.doc.line(line).from)]);
    }
    return marks;
  },
  provide: (field) => EditorView.decorations.from(field),
});

/** The instructions of one line. Where the function changes its name stands first. */
class Code extends WidgetType {
  constructor(readonly instructions: Instruction[]) {
    super();
  }
  override eq(other: Code): boolean {
    return other.instructions === this.instructions;
  }
  override get estimatedHeight(): number {
    return 16 * this.instructions.length;
  }
  override toDOM(): HTMLElement {
    const box = document.createElement("div");
    box.className = "instructions";
    box.dataset.test = "instructions";
    let inside = "";
    for (const one of this.instructions) {
      if (one.inside !== inside) {
        inside = one.inside;
        const name = box.appendChild(document.createElement("div"));
        name.className = "inside";
        name.textContent = inside;
      }
      const row = box.appendChild(document.createElement("div"));
      row.title = one.elsewhere ? `a line elsewhere: ${one.elsewhere}` : "";
      row.className = one.elsewhere ? "elsewhere" : "";
      for (const [kind, text] of [["count", one.accesses], ["count", one.remote], ["address", one.address], ["text", one.text]] as const) {
        const cell = row.appendChild(document.createElement("span"));
        cell.className = kind;
        cell.textContent = text;
      }
      const first = row.firstElementChild;
      if (one.color && first instanceof HTMLElement) first.style.borderRightColor = one.color;
    }
    return box;
  }
}

const list = StateEffect.define<Map<number, Instruction[]>>();
const listed = StateField.define<DecorationSet>({
  create: () => Decoration.none,
  update(blocks, transaction) {
    for (const effect of transaction.effects) {
      if (!effect.is(list)) continue;
      const { doc } = transaction.state;
      return Decoration.set(
        [...effect.value]
          .filter(([line]) => line >= 1 && line <= doc.lines)
          .sort(([a], [b]) => a - b)
          .map(([line, instructions]) => Decoration.widget({ widget: new Code(instructions), block: true, side: 1 }).range(doc.line(line).to)),
      );
    }
    return blocks;
  },
  provide: (field) => EditorView.decorations.from(field),
});

const theme = EditorView.theme({
  "&": { height: "100%", fontSize: "12px", backgroundColor: "var(--panel)", color: "var(--text)" },
  ".cm-scroller": { fontFamily: "var(--mono)", lineHeight: "18px" },
  ".cm-gutters": { backgroundColor: "var(--sunk)", color: "var(--dim)", borderRight: "1px solid var(--line)" },
  ".cm-line.picked": { backgroundColor: "color-mix(in srgb, var(--accent) 20%, transparent)" },
  ".figures": { display: "flex", height: "18px", cursor: "pointer" },
  ".figures span": { width: "58px", textAlign: "right", paddingRight: "5px", whiteSpace: "nowrap" },
  ".figures span:first-child": { borderRight: "4px solid transparent", color: "var(--text)" },
  ".instructions": { backgroundColor: "var(--sunk)", borderLeft: "3px solid var(--accent)", fontSize: "11px", lineHeight: "16px", color: "var(--text)", whiteSpace: "pre" },
  ".instructions span": { display: "inline-block" },
  ".instructions .count": { width: "58px", textAlign: "right", paddingRight: "6px" },
  ".instructions .count:first-child": { borderRight: "4px solid transparent" },
  ".instructions .address": { width: "76px", paddingLeft: "8px", color: "var(--dim)" },
  ".instructions .inside": { color: "var(--dim)", fontStyle: "italic", paddingLeft: "132px" },
  ".instructions .elsewhere .text": { opacity: "0.6" },
  ".cm-panels": { backgroundColor: "var(--sunk)", color: "var(--text)" },
});

const colors = syntaxHighlighting(
  HighlightStyle.define([
    { tag: tags.keyword, color: "light-dark(#7b2fa8, #c792ea)" },
    { tag: [tags.string, tags.character], color: "light-dark(#1d7a46, #9ece6a)" },
    { tag: tags.comment, color: "var(--dim)", fontStyle: "italic" },
    { tag: [tags.number, tags.bool], color: "light-dark(#a04a00, #f2a868)" },
    { tag: [tags.typeName, tags.className], color: "light-dark(#00658f, #7dcfff)" },
    { tag: [tags.meta, tags.processingInstruction], color: "light-dark(#6a6f00, #c8c25a)" },
  ]),
);

/** A source that is shown: another line of it, machine code in it, and its end. */
export interface Shown {
  to: (line: number | null) => void;
  /** Shows machine code between the lines; an empty map takes it away. */
  code: (below: Map<number, Instruction[]>) => void;
  end: () => void;
}

/** Shows a source in an element. */
export function show(parent: HTMLElement, source: Annotated): Shown {
  const nonce = document.querySelector<HTMLMetaElement>("meta[name=style-nonce]")?.content ?? "";
  const view = new EditorView({
    parent,
    state: EditorState.create({
      doc: source.text,
      extensions: [
        EditorView.cspNonce.of(nonce),
        EditorState.readOnly.of(true),
        gutter({
          class: "cm-figures",
          markers: (view) =>
            RangeSet.of(
              [...source.lines]
                .filter(([line]) => line >= 1 && line <= view.state.doc.lines)
                .sort(([a], [b]) => a - b)
                .map(([line, beside]) => new Figures(beside).range(view.state.doc.line(line).from)),
            ),
          initialSpacer: () => new Figures({ texts: source.columns, color: null, tip: "" }),
          domEventHandlers: {
            click: (view, block) => {
              source.onpick(view.state.doc.lineAt(block.from).number);
              return true;
            },
          },
        }),
        lineNumbers({
          domEventHandlers: {
            click: (view, block) => {
              source.onpick(view.state.doc.lineAt(block.from).number);
              return true;
            },
          },
        }),
        picked,
        listed,
        search({ top: true }),
        // As a click on the figures beside the line that the cursor is on.
        keymap.of([
          {
            key: "Enter",
            run: (view) => {
              source.onpick(view.state.doc.lineAt(view.state.selection.main.head).number);
              return true;
            },
          },
          ...searchKeymap,
        ]),
        language(source.file),
        theme,
        colors,
        EditorView.contentAttributes.of({ "aria-label": `source ${source.file}`, tabindex: "0" }),
      ],
    }),
  });
  const to = (line: number | null) => {
    const effects: StateEffect<unknown>[] = [pick.of(line)];
    if (line !== null && line >= 1 && line <= view.state.doc.lines) {
      effects.push(EditorView.scrollIntoView(view.state.doc.line(line).from, { y: "start", yMargin: 90 }));
    }
    view.dispatch({ effects });
  };
  to(source.line);
  return { to, code: (below) => view.dispatch({ effects: list.of(below) }), end: () => view.destroy() };
}
