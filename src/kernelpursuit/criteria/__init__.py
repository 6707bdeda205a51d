"""Criteria: how good each atom is now, and what changes when some are taken. One method of the literature, one file.

Begin with base.py, then squares.py. d is an atom with the constant removed, d̃ its part outside the span, r the
residual and g the negative gradient of the loss; several targets share the atoms, and numerators are sums over
targets.

=================== ============================== =============================================
criterion           score                          what is taken out
=================== ============================== =============================================
squares, prefit     ‖d̃ᵀr‖² / ‖d̃‖²                  r and the atoms are projected
squares, backfit    ‖dᵀr‖² / ‖d‖²                  r is projected off the span
squares, basic      ‖dᵀr‖² / ‖d‖²                  r loses its part along d
gradient, prefit    ‖d̃ᵀg‖² / ‖d̃‖²                  line search along d̃, then all weights again
gradient, backfit   ‖d̃ᵀg‖² / ‖d‖²                  line search along d̃, then all weights again
gradient, basic     ‖dᵀg‖² / ‖d‖²                  line search along d
rayleigh            ‖k̃‖² / k̃ⱼⱼ, of K − LLᵀ         the pivot, from K
fisher              ‖d̃ᵀu‖² / d̃ᵀBd̃                  the atoms are projected; B is the scatter in classes
cca                 cosine of the two columns      K − UUᵀ or (I − UUᵀ)K, in both views
faces               |dᵀr| / (1 − σ dᵀc)            r and c move along q; atoms may be released
=================== ============================== =============================================
"""
